"""All invariants of a cluster, and those that other code checks: `Checker` asks each at each event.

To add an invariant: write a class in the module of its family, state the invariant and its source in the docstring, and
add the class to `ALL`.
"""

from typing import Final

from gf_i2p.simulator.cluster.invariants.elections import ElectionsHeld
from gf_i2p.simulator.cluster.invariants.evidence import (
    CommitsProven,
    JoinersCaughtUp,
    LeaderIsHeard,
    PatientServers,
    ReadsConfirmed,
    WonByMajority,
)
from gf_i2p.simulator.cluster.invariants.harm import (
    Acknowledged,
    CommitsOwnTerm,
    CommittedOnMajority,
    DiskKeeps,
    ElectionSafety,
    ForgeriesRefused,
    FreshReads,
    LeaderAppendOnly,
    LeaderCompleteness,
    LiveLeaderStays,
    LogMatching,
    NobodyAccused,
    NothingFalls,
    OnePendingChange,
    PersistedBeforeSent,
    SameChoice,
    SnapshotSafety,
    StateMachineSafety,
    TermsBounded,
    VoteOnce,
)
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.cluster.invariants.joining import (
    ChangesExplained,
    JoinGoesOn,
    LeaversForgotten,
    LeavingWaits,
    RemovalTold,
)
from gf_i2p.simulator.cluster.invariants.memory import (
    ContactsMarked,
    DurableKnown,
    MembershipKnown,
    MemoryFreed,
    VotersHeard,
)
from gf_i2p.simulator.cluster.invariants.messages import (
    BlocksTaken,
    HonestIndexes,
    PacksContinue,
    PacksTaken,
    RequestsAreTheLog,
)
from gf_i2p.simulator.cluster.invariants.office import (
    EntriesTaken,
    LeaderSpeaksFirst,
    ReadsTaken,
    StepsDownWhenTold,
    VotesDeposeNobody,
)
from gf_i2p.simulator.cluster.invariants.promptness import (
    CallersAnswered,
    DenialsReported,
    LeaderGoesOn,
    PatienceEnds,
    ReadsEnd,
    SnapshotsKept,
)
from gf_i2p.simulator.cluster.invariants.thrift import (
    HeartbeatsSpaced,
    NothingTwice,
    OneQuestion,
    TicksEnd,
    VotesExplained,
)
from gf_i2p.simulator.cluster.invariants.waits import WaitsFit


class StepsSucceed(Invariant):
    """No step of a core fails, and the storage refuses no write.

    `gf_i2p/node/consensus/driver.py`: a failed step halts the node.
    """


class Linearizable(Invariant):
    """Each register behaves as if clients did all reads and writes one after another (Raft 8; thesis 6.4)."""


class Liveness(Invariant):
    """After the last fault, the farm soon has one leader, equal logs and one publisher: within 20 election time-outs.

    Raft 5.6.
    """


class Bounded(Invariant):
    """A run of limited time takes a limited number of events (gf_i2p/simulator/seed_run.py)."""


ALL: Final[tuple[type[Invariant], ...]] = (
    ElectionSafety,
    LeaderAppendOnly,
    LogMatching,
    LeaderCompleteness,
    StateMachineSafety,
    CommittedOnMajority,
    CommitsOwnTerm,
    NothingFalls,
    VoteOnce,
    PersistedBeforeSent,
    DiskKeeps,
    SnapshotSafety,
    OnePendingChange,
    Acknowledged,
    FreshReads,
    SameChoice,
    NobodyAccused,
    ForgeriesRefused,
    TermsBounded,
    LiveLeaderStays,
    StepsDownWhenTold,
    VotesDeposeNobody,
    ReadsTaken,
    EntriesTaken,
    LeaderSpeaksFirst,
    WonByMajority,
    LeaderIsHeard,
    ReadsConfirmed,
    CommitsProven,
    PatientServers,
    JoinersCaughtUp,
    ElectionsHeld,
    CallersAnswered,
    BlocksTaken,
    HonestIndexes,
    LeaderGoesOn,
    DenialsReported,
    PatienceEnds,
    ReadsEnd,
    SnapshotsKept,
    RequestsAreTheLog,
    PacksContinue,
    PacksTaken,
    JoinGoesOn,
    ChangesExplained,
    LeavingWaits,
    RemovalTold,
    LeaversForgotten,
    TicksEnd,
    HeartbeatsSpaced,
    OneQuestion,
    NothingTwice,
    VotesExplained,
    MemoryFreed,
    DurableKnown,
    VotersHeard,
    ContactsMarked,
    MembershipKnown,
    WaitsFit,
    StepsSucceed,
    Linearizable,
    Liveness,
    Bounded,
)
"""All invariants. The last four have no method here: the code that finds a violation raises the error itself."""
