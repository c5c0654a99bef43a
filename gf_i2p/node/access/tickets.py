"""The check of tickets and admissions (`gf_i2p.farm.admission`) against the keys of the administrators.

Every server makes this check by itself: the server that takes the newcomer's request, the leader before the log gets
the admission, and each server that reads the log.
"""

from collections.abc import Mapping

from gf_i2p.farm.admission import INSIDE, Admission, Ticket
from gf_i2p.node.access.login_keys import is_signed
from gf_i2p.node.access.roles import Role
from gf_i2p.wire.digest import Verifier
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.key_proof import NOBODY, PublicKey


def objection_to_ticket(cluster: str, users: Mapping[str, Verifier], ticket: Ticket, date_ms: int) -> str | None:
    """Return why a ticket lets nobody join at this time; None: it does.

    `users`: the users that may log in at this server. `date_ms`: ms since the epoch. The check of a ticket by an
    unknown administrator takes as long as any.
    """
    verifier = users.get(ticket.by) if ticket.by.startswith(f"{Role.ADMIN}-") else None
    known = verifier if isinstance(verifier, PublicKey) else None
    if not is_signed((known or NOBODY).raw, ticket.signature, ticket.signed_text(cluster)) or known is None:
        return f"the ticket for server {ticket.server} is not signed by a key of {ticket.by} that this server knows"
    if date_ms > ticket.until_ms:
        return f"the code for server {ticket.server} is too old: ask {ticket.by} for a new one"
    return None


def objection_to_admission(
    cluster: str, users: Mapping[str, Verifier], admission: Admission, date_ms: int
) -> str | None:
    """Return why this admission lets no server join; None: it does. See `objection_to_ticket`."""
    ticket = admission.ticket
    if (why_not := objection_to_ticket(cluster, users, ticket, date_ms)) is not None:
        return why_not
    if not is_signed(ticket.key, admission.signature, admission.signed_text(cluster)):
        return f"the admission of server {ticket.server} is not signed with its ticket's key"
    try:
        endpoint = Endpoint.parse(admission.endpoint)
    except EndpointError as error:
        return str(error)
    fits = endpoint.is_i2p if ticket.endpoint == INSIDE else admission.endpoint == ticket.endpoint
    if not fits:
        return f"the ticket for server {ticket.server} is for {ticket.endpoint}, not for {admission.endpoint}"
    if endpoint.is_i2p != (admission.fingerprint is None):
        return f"server {ticket.server} needs a fingerprint outside I2P, and has none inside"
    return None
