import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Runs Debezium's engine without a sink and counts what it hands over.
 *
 * Each line of standard input asks for one run: the path of a properties file, a blank, how many events to wait for.
 * Those to the destination that the file's meter.destination ends are counted. Each
 * run answers with one line of JSON: events, bytes of their values, and the seconds from the engine's start to the first
 * event and to the last one. All runs share this process, so that only the first ones pay for the compiler.
 */
public class DebeziumMeter {
    private static final long LIMIT_SECONDS = 3600;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String request = requests.readLine(); request != null; request = requests.readLine()) {
            int blank = request.lastIndexOf(' ');
            answers.println(run(Path.of(request.substring(0, blank)), Long.parseLong(request.substring(blank + 1))));
        }
        System.exit(0);
    }

    private static String run(Path file, long expected) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
        Meter meter = new Meter(expected, properties.getProperty("meter.destination"));
        ExecutorService thread = Executors.newSingleThreadExecutor();
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(properties)
                .using((success, message, error) -> meter.ended(success, message))
                .notifying(meter)
                .build();
        try {
            thread.execute(engine);
            return meter.await();
        } finally {
            engine.close();
            thread.shutdown();
            thread.awaitTermination(60, TimeUnit.SECONDS);
        }
    }

    /** Counts on the engine's thread; the thread that asked for the run waits for it. */
    private static final class Meter implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {
        private final long expected;
        private final String destination;
        private final long start = System.nanoTime();
        private final CountDownLatch done = new CountDownLatch(1);
        private final AtomicReference<String> failure = new AtomicReference<>();
        private volatile long events;
        private volatile long bytes;
        private volatile long first;
        private volatile long last;

        private Meter(long expected, String destination) {
            this.expected = expected;
            this.destination = destination;
        }

        @Override
        public void handleBatch(List<ChangeEvent<String, String>> records,
                DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) throws InterruptedException {
            long begun = System.nanoTime();
            long count = 0;
            long size = 0;
            for (ChangeEvent<String, String> record : records) {
                if (record.value() != null && record.destination().endsWith(destination)) {
                    count++;
                    size += record.value().length();
                }
                committer.markProcessed(record);
            }
            committer.markBatchFinished();
            if (count > 0) {
                last = System.nanoTime();
                first = events == 0 ? begun : first;
            }
            bytes += size;
            events += count;
            if (events >= expected) {
                done.countDown();
            }
        }

        private void ended(boolean success, String message) {
            if (!success) {
                failure.set(message);
            }
            done.countDown();
        }

        private String await() throws InterruptedException {
            boolean inTime = done.await(LIMIT_SECONDS, TimeUnit.SECONDS);
            if (failure.get() != null || !inTime || events < expected) {
                String reason = failure.get() != null ? failure.get() : "only " + events + " of " + expected + " events came";
                return "{\"failure\": \"" + reason.replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"}";
            }
            return String.format(java.util.Locale.ROOT, "{\"events\": %d, \"bytes\": %d, \"to_first\": %.4f, \"to_last\": %.4f}",
                    events, bytes, (first - start) / 1e9, (last - start) / 1e9);
        }
    }
}
