import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.stream.Stream;
import net.data.technology.jraft.ClusterConfiguration;
import net.data.technology.jraft.LogEntry;
import net.data.technology.jraft.RaftConsensus;
import net.data.technology.jraft.RaftContext;
import net.data.technology.jraft.RaftMessageSender;
import net.data.technology.jraft.RaftParameters;
import net.data.technology.jraft.Snapshot;
import net.data.technology.jraft.StateMachine;
import net.data.technology.jraft.extensions.FileBasedSequentialLogStore;
import net.data.technology.jraft.extensions.FileBasedServerStateManager;
import net.data.technology.jraft.extensions.Log4jLoggerFactory;
import net.data.technology.jraft.extensions.RpcTcpClientFactory;
import net.data.technology.jraft.extensions.RpcTcpListener;
import org.apache.log4j.BasicConfigurator;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;

/**
 * One JRaft server with its stock log, state files and plain TCP, for the scenarios beside this file.
 *
 * <pre>
 * JraftServer run DIRECTORY PORT HEARTBEAT SHORTEST LONGEST DISTANCE   a server; times in ms, DISTANCE 0: no snapshots
 * JraftServer log DIRECTORY                                           the log of a stopped one: "INDEX TERM TYPE HEX"
 * </pre>
 *
 * Its state machine keeps every value. Each line of DIRECTORY/applied is "INDEX HEX", in the order of the calls, or
 * "restored INDEX" when a snapshot took the place of what stood before it. A snapshot's data are the same lines.
 */
public final class JraftServer {
    private JraftServer() {}

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[1]);
        BasicConfigurator.configure();
        if (arguments[0].equals("log")) {
            Logger.getRootLogger().setLevel(Level.OFF);
            printLog(directory);
            return;
        }
        Logger.getRootLogger().setLevel(Level.DEBUG);
        int[] numbers = Arrays.stream(arguments, 2, arguments.length).mapToInt(Integer::parseInt).toArray();
        ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(8);
        RaftParameters parameters = new RaftParameters()
            .withHeartbeatInterval(numbers[1])
            .withElectionTimeoutLower(numbers[2])
            .withElectionTimeoutUpper(numbers[3])
            .withSnapshotEnabled(numbers[4])
            .withRpcFailureBackoff(50)
            .withMaximumAppendingSize(200)
            .withLogSyncBatchSize(5)
            .withLogSyncStoppingGap(5)
            .withSyncSnapshotBlockSize(0);
        RaftConsensus.run(new RaftContext(
            new FileBasedServerStateManager(directory.toString()),
            new Values(directory),
            parameters,
            new RpcTcpListener(numbers[0], executor),
            new Log4jLoggerFactory(),
            new RpcTcpClientFactory(executor),
            executor));
    }

    private static void printLog(Path directory) {
        FileBasedSequentialLogStore store = new FileBasedSequentialLogStore(directory.toString());
        StringBuilder lines = new StringBuilder();
        for (long index = store.getStartIndex(); index < store.getFirstAvailableIndex(); index++) {
            LogEntry entry = store.getLogEntryAt(index);
            lines.append(index).append(' ').append(entry.getTerm()).append(' ').append(entry.getValueType().toByte());
            lines.append(' ').append(hex(entry.getValue())).append('\n');
        }
        System.out.print(lines);
    }

    private static String hex(byte[] data) {
        return java.util.HexFormat.of().formatHex(data);
    }

    /** Keeps every value, by index. */
    private static final class Values implements StateMachine {
        private final Path directory;
        private final BufferedWriter applied;
        private final TreeMap<Long, String> values = new TreeMap<>();
        private Snapshot last;

        Values(Path directory) throws IOException {
            this.directory = directory;
            last = newestSnapshot();
            Path file = directory.resolve("applied");
            if (Files.exists(file)) {
                for (String line : Files.readAllLines(file)) {
                    String[] words = line.split(" ", -1);
                    if (words[0].equals("restored")) {
                        restore(snapshotFile(last));
                    } else {
                        values.put(Long.parseLong(words[0]), words[1]);
                    }
                }
            }
            applied = Files.newBufferedWriter(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }

        private void note(String line) {
            try {
                applied.write(line + "\n");
                applied.flush();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void start(RaftMessageSender sender) {}

        @Override
        public synchronized void commit(long index, byte[] data) {
            values.put(index, hex(data));
            note(index + " " + hex(data));
        }

        @Override
        public void rollback(long index, byte[] data) {}

        @Override
        public void preCommit(long index, byte[] data) {}

        @Override
        public void exit(int code) {
            System.err.println("exit " + code);
            Runtime.getRuntime().halt(code == 0 ? 0 : 1);
        }

        // Snapshots: INDEX-TERM.data, and INDEX-TERM.servers when it is whole.

        private Path snapshotFile(Snapshot snapshot) {
            return directory.resolve(snapshot.getLastLogIndex() + "-" + snapshot.getLastLogTerm() + ".data");
        }

        private void keep(Snapshot snapshot) throws IOException {
            Path data = snapshotFile(snapshot);
            String name = data.getFileName().toString().replace(".data", ".servers");
            Path whole = Files.write(directory.resolve(name + ".new"), snapshot.getLastConfig().toBytes());
            Files.move(whole, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
            last = newestSnapshot();
        }

        private Snapshot newestSnapshot() throws IOException {
            try (Stream<Path> files = Files.list(directory)) {
                Path newest = files.filter(file -> file.toString().endsWith(".servers"))
                    .max(Comparator.comparingLong(file -> numbers(file)[0])).orElse(null);
                if (newest == null) {
                    return null;
                }
                long[] numbers = numbers(newest);
                Path data = Path.of(newest.toString().replace(".servers", ".data"));
                ClusterConfiguration servers = ClusterConfiguration.fromBytes(Files.readAllBytes(newest));
                return new Snapshot(numbers[0], numbers[1], servers, Files.size(data));
            }
        }

        private static long[] numbers(Path file) {
            String name = file.getFileName().toString();
            return Arrays.stream(name.substring(0, name.indexOf('.')).split("-")).mapToLong(Long::parseLong).toArray();
        }

        private void restore(Path file) throws IOException {
            values.clear();
            for (String line : Files.readAllLines(file)) {
                String[] words = line.split(" ", -1);
                if (!words[0].equals("values")) {
                    values.put(Long.parseLong(words[0]), words[1]);
                }
            }
        }

        @Override
        public synchronized Snapshot getLastSnapshot() {
            return last;
        }

        @Override
        public synchronized CompletableFuture<Boolean> createSnapshot(Snapshot snapshot) {
            StringBuilder lines = new StringBuilder("values\n");
            for (Map.Entry<Long, String> each : values.headMap(snapshot.getLastLogIndex(), true).entrySet()) {
                lines.append(each.getKey()).append(' ').append(each.getValue()).append('\n');
            }
            try {
                Files.write(snapshotFile(snapshot), lines.toString().getBytes(StandardCharsets.US_ASCII));
                keep(snapshot);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            return CompletableFuture.completedFuture(true);
        }

        @Override
        public synchronized int readSnapshotData(Snapshot snapshot, long offset, byte[] buffer) {
            try {
                byte[] data = Files.readAllBytes(snapshotFile(snapshot));
                int size = (int) Math.min(buffer.length, data.length - offset);
                System.arraycopy(data, (int) offset, buffer, 0, size);
                return size;
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public synchronized void saveSnapshotData(Snapshot snapshot, long offset, byte[] data) {
            try {
                Path file = snapshotFile(snapshot);
                byte[] before = offset == 0 ? new byte[0] : Files.readAllBytes(file);
                byte[] now = Arrays.copyOf(before, (int) offset + data.length);
                System.arraycopy(data, 0, now, (int) offset, data.length);
                Files.write(file, now);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public synchronized boolean applySnapshot(Snapshot snapshot) {
            try {
                restore(snapshotFile(snapshot));
                keep(snapshot);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            note("restored " + snapshot.getLastLogIndex());
            return true;
        }
    }
}
