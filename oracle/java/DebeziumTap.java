import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
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
 * Runs Debezium's engine and writes every record as one line of JSON: destination, key, value, headers.
 *
 * Each line of standard input asks for one run: the path of a properties file, a tab, the file to write. A run ends with
 * the logical message whose prefix is oracle-end, which is not written; with snapshot.mode initial, with the snapshot's
 * last row. It answers with one line: ok, or failed and why.
 */
public class DebeziumTap {
    private static final long LIMIT_SECONDS = 180;
    private static final String END = "oracle-end";
    private static final String LAST = "\"snapshot\":\"last\"";

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String request = requests.readLine(); request != null; request = requests.readLine()) {
            String[] files = request.split("\t");
            answers.println(run(Path.of(files[0]), Path.of(files[1])));
        }
        System.exit(0);
    }

    private static String run(Path file, Path output) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try (BufferedWriter lines = Files.newBufferedWriter(output, StandardCharsets.UTF_8)) {
            Tap tap = new Tap(lines);
            DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class, Json.class, Json.class)
                    .using(properties)
                    .using((success, message, error) -> tap.ended(success, message, error))
                    .notifying(tap)
                    .build();
            try {
                thread.execute(engine);
                return tap.await();
            } finally {
                close(engine);
                thread.shutdown();
                thread.awaitTermination(60, TimeUnit.SECONDS);
            }
        }
    }

    private static void close(DebeziumEngine<?> engine) throws IOException {
        try {
            engine.close();
        } catch (IllegalStateException alreadyClosed) {
            System.err.println(alreadyClosed.getMessage());
        }
    }

    /** Writes on the engine's thread; the thread that asked for the run waits for it. */
    private static final class Tap implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {
        private final BufferedWriter lines;
        private final CountDownLatch done = new CountDownLatch(1);
        private final AtomicReference<String> failure = new AtomicReference<>();

        private Tap(BufferedWriter lines) {
            this.lines = lines;
        }

        @Override
        public void handleBatch(List<ChangeEvent<String, String>> records,
                DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) throws InterruptedException {
            try {
                for (ChangeEvent<String, String> record : records) {
                    if (record.destination().endsWith("message") && record.key() != null && record.key().contains(END)) {
                        done.countDown();
                    } else if (done.getCount() > 0) {
                        write(record);
                        if (record.value() != null && record.value().contains(LAST)) {
                            done.countDown();
                        }
                    }
                    committer.markProcessed(record);
                }
                lines.flush();
            } catch (IOException error) {
                ended(false, error.toString(), error);
            }
            committer.markBatchFinished();
        }

        private void write(ChangeEvent<String, String> record) throws IOException {
            StringBuilder headers = new StringBuilder("{");
            List<Header<Object>> present = record.headers();
            for (Header<Object> header : present == null ? List.<Header<Object>>of() : present) {
                headers.append(headers.length() > 1 ? "," : "").append(text(header.getKey())).append(':');
                headers.append(text(header.getValue() == null ? null : header.getValue().toString()));
            }
            lines.write("{\"destination\":" + text(record.destination()) + ",\"key\":" + record.key() + ",\"value\":"
                    + record.value() + ",\"headers\":" + headers + "}}\n");
        }

        /** What the others only pass on. */
        private static Throwable cause(Throwable error) {
            return error.getCause() == null ? error : cause(error.getCause());
        }

        private void ended(boolean success, String message, Throwable error) {
            if (!success) {
                failure.compareAndSet(null, message + (error == null ? "" : ": " + cause(error)));
                done.countDown();
            }
        }

        private String await() throws InterruptedException {
            if (!done.await(LIMIT_SECONDS, TimeUnit.SECONDS)) {
                return "failed: no end after " + LIMIT_SECONDS + " s";
            }
            return failure.get() == null ? "ok" : "failed: " + failure.get().replace('\n', ' ');
        }
    }

    /** A JSON string, or null. */
    private static String text(String value) {
        if (value == null) {
            return "null";
        }
        StringBuilder json = new StringBuilder("\"");
        for (char each : value.toCharArray()) {
            if (each == '"' || each == '\\') {
                json.append('\\').append(each);
            } else if (each < 32) {
                json.append(String.format("\\u%04x", (int) each));
            } else {
                json.append(each);
            }
        }
        return json.append('"').toString();
    }
}
