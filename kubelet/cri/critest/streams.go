package critest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/moby/spdystream"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// streamCommand connects to package program as a command in a container.
func (e *env) streamCommand(id string, stdin, tty bool, args ...string) *command {
	e.Helper()
	return e.command(e.execURL(id, stdin, tty, args...), stdin, !tty, tty)
}

func (e *env) execURL(id string, stdin, tty bool, args ...string) string {
	e.Helper()
	out, err := e.Runtime.Exec(e.ctx, &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: append(append([]string{}, e.Command...), args...), Stdin: stdin, Stdout: true, Stderr: !tty, Tty: tty,
	})
	e.succeeds(err, "exec")
	return out.GetUrl()
}

// checkStreamCommand: the outputs are kept apart, and the status has the exit code.
func checkStreamCommand(e *env) {
	_, id := e.running("a", "run")
	for _, test := range []struct{ stdout, stderr, code string }{{"hello", "", "0"}, {"out\n", "err\n", "7"}, {"", "größer\t", "255"}} {
		stdout, stderr, code := e.streamCommand(id, false, false, "say", test.stdout, test.stderr, test.code).end()
		if stdout != test.stdout || stderr != test.stderr || code != test.code {
			e.Errorf("%q: %q, %q, %s", test, stdout, stderr, code)
		}
	}
	stdout, _, code := e.streamCommand(id, false, false, "flood", "3000000").end()
	if len(stdout) != 3000000 || code != "0" {
		e.Errorf("flood: %d bytes, %s", len(stdout), code)
	}
	e.containerIs(id, containerRunning)
}

// checkStreamTerminal: a terminal has one output, whose lines end with a carriage return, too.
func checkStreamTerminal(e *env) {
	_, id := e.running("a", "run")
	stdout, _, code := e.streamCommand(id, false, true, "say", "out\n", "", "3").end()
	if stdout != "out\r\n" || code != "3" {
		e.Errorf("in a terminal: %q, %s", stdout, code)
	}
}

// checkStreamInput: a command reads its input to the end.
func checkStreamInput(e *env) {
	_, id := e.running("a", "run")
	c := e.streamCommand(id, true, false, "copy")
	text := strings.Repeat("one line of many\n", 20000)
	go func() {
		for rest := text; rest != ""; {
			n := min(len(rest), 30000)
			if _, err := io.WriteString(c.stdin, rest[:n]); err != nil {
				return // the output is too short then
			}
			rest = rest[n:]
		}
		c.stdin.Close()
	}()
	if stdout, stderr, code := c.end(); stdout != text || stderr != "" || code != "0" {
		e.Errorf("%d bytes of %d, %q, %s", len(stdout), len(text), stderr, code)
	}
}

// checkStreamRefusals: streams need a container that runs, and a URL is for one connection.
func checkStreamRefusals(e *env) {
	sandbox, of := e.sandbox("a")
	created := e.create(sandbox, of, e.containerConfig("created", "run"))
	_, err := e.Runtime.Exec(e.ctx, &runtimeapi.ExecRequest{ContainerId: created, Cmd: e.Command, Stdout: true})
	e.fails(err, "exec in a created container")
	_, err = e.Runtime.Attach(e.ctx, &runtimeapi.AttachRequest{ContainerId: created, Stdout: true})
	e.fails(err, "attach to a created container")
	e.start(created)
	e.ready("created")
	_, err = e.Runtime.Exec(e.ctx, &runtimeapi.ExecRequest{ContainerId: created, Cmd: e.Command})
	e.failsWith(codes.InvalidArgument, err, "exec without streams")
	_, err = e.Runtime.Exec(e.ctx, &runtimeapi.ExecRequest{ContainerId: created, Cmd: e.Command, Stdout: true, Stderr: true, Tty: true})
	e.failsWith(codes.InvalidArgument, err, "exec in a terminal with an output for errors")
	_, err = e.Runtime.PortForward(e.ctx, &runtimeapi.PortForwardRequest{PodSandboxId: "none"})
	e.fails(err, "forward ports of an unknown sandbox")

	used := e.execURL(created, false, false, "say", "", "", "0")
	e.command(used, false, true, false).end()
	if c, code := e.dial(used, commandProtocol); code != http.StatusNotFound {
		e.Errorf("a URL that was used: %d, want %d", code, http.StatusNotFound)
		if c != nil {
			c.close()
		}
	}
}

// attachable starts a container that copies its input, and returns a client's streams.
func (e *env) attachable(once bool) (container string, c *command) {
	e.Helper()
	sandbox, of := e.sandbox("a")
	config := e.containerConfig("a", "copy")
	config.Stdin, config.StdinOnce = true, once
	id := e.create(sandbox, of, config)
	e.start(id)
	out, err := e.Runtime.Attach(e.ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true, Stderr: true})
	e.succeeds(err, "attach")
	return id, e.command(out.GetUrl(), true, true, false)
}

// checkAttach: a client writes the input of the program and reads its output, which is also in the
// log. If the container's input is for one client, it ends with that client's.
func checkAttach(e *env) {
	id, c := e.attachable(true)
	io.WriteString(c.stdin, "hello\n")
	c.want("hello\n")
	c.stdin.Close()
	stdout, stderr, code := c.end()
	if stdout != "" || stderr != "" || code != "0" {
		e.Errorf("the end is %q, %q, %s", stdout, stderr, code)
	}
	if s := e.exited(id); s.GetExitCode() != 0 {
		e.Errorf("the exit code is %d", s.GetExitCode())
	}
	if lines := e.log(e.logPath("a")); len(lines) != 1 || lines[0] != (line{"stdout", "F", "hello"}) {
		e.Errorf("the log is %v", lines)
	}
}

// checkAttachDetach: clients come and go while the program runs.
func checkAttachDetach(e *env) {
	id, c := e.attachable(false)
	for _, text := range []string{"first\n", "second\n", "third\n"} {
		io.WriteString(c.stdin, text)
		c.want(text)
		if text == "third\n" {
			e.succeeds(e.stop(id, 0), "stop")
			c.end()
			break
		}
		c.stdin.Close()
		if _, _, code := c.end(); code != "0" {
			e.Errorf("the end of a client: %s", code)
		}
		e.containerIs(id, containerRunning)
		out, err := e.Runtime.Attach(e.ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true, Stderr: true})
		e.succeeds(err, "attach")
		c = e.command(out.GetUrl(), true, true, false)
	}
}

// checkPortForward: connections to a port are independent of each other. One to a port where nothing
// listens is refused in words.
func checkPortForward(e *env) {
	sandbox, of := e.sandbox("a")
	id := e.create(sandbox, of, e.containerConfig("a", "serve"))
	e.start(id)
	var port int
	e.eventually("the program listens", func() bool {
		_, text, found := strings.Cut(e.rawLog("a"), " port ")
		number, _, complete := strings.Cut(text, "\n")
		var err error
		port, err = strconv.Atoi(number)
		return found && complete && err == nil
	})
	out, err := e.Runtime.PortForward(e.ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox})
	e.succeeds(err, "port-forward")
	c, code := e.dial(out.GetUrl(), forwardProtocol)
	if c == nil {
		e.Fatalf("the runtime answers %d", code)
	}
	defer c.close()
	connect := func(request, port int) (data, failure io.ReadWriteCloser) {
		open := func(kind string) *spdystream.Stream {
			return c.open(http.Header{
				corev1.StreamType: {kind}, corev1.PortHeader: {strconv.Itoa(port)}, corev1.PortForwardRequestIDHeader: {strconv.Itoa(request)},
			})
		}
		failure = open(corev1.StreamTypeError)
		return open(corev1.StreamTypeData), failure
	}
	first, failure := connect(0, port)
	second, _ := connect(1, port)
	for i, conn := range []io.ReadWriteCloser{second, first} {
		text := fmt.Sprintf("to %d", i)
		io.WriteString(conn, text)
		got := make([]byte, len(text))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
			e.Errorf("the port returns %q, want %q: %v", got, text, err)
		}
	}
	first.Close()
	if text, err := io.ReadAll(first); err != nil || len(text) != 0 {
		e.Errorf("the port returns %q after the end: %v", text, err)
	}
	if text, err := io.ReadAll(failure); err != nil || len(text) != 0 {
		e.Errorf("a connection that ended: %q, %v", text, err)
	}
	_, failure = connect(2, 1)
	if text, err := io.ReadAll(failure); err != nil || !strings.Contains(string(text), "refused") {
		e.Errorf("a port where nothing listens: %q, %v", text, err)
	}
}
