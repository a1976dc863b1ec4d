package kubelets

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/tools/remotecommand"
)

// large is more than any buffer on the way holds, in bytes.
const large = 5 << 20

// pattern returns large bytes, each part of which is different.
func pattern() []byte {
	data := make([]byte, large)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return data
}

// open returns an input that has some text, and then no end until the run ends.
func (r *streamRun) open(text string) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		io.WriteString(writer, text)
		<-r.ctx.Done()
		writer.Close()
	}()
	return reader
}

// each returns the same case for each way.
func each(name string, run func(r *streamRun, way string) error) (cases []StreamCase) {
	for _, way := range ways {
		cases = append(cases, StreamCase{name + "/" + way, func(r *streamRun) error { return run(r, way) }})
	}
	return cases
}

// execCases are commands that run in a container.
func execCases() (cases []StreamCase) {
	// simple adds a command that runs to its end in a shared pod.
	simple := func(name string, c command) {
		cases = append(cases, each("exec/"+name, func(r *streamRun, way string) error {
			c := c
			c.way, c.pod = way, r.shell()
			r.execute(c)
			return nil
		})...)
	}
	// input adds a command with an input of its own.
	input := func(name string, script string, stdin func(r *streamRun) io.Reader, more func(*command)) {
		cases = append(cases, each("exec/"+name, func(r *streamRun, way string) error {
			c := command{way: way, pod: r.shell(), args: r.marked(script), stdin: stdin(r)}
			if more != nil {
				more(&c)
			}
			r.execute(c)
			r.within("the process has ended", r.ended)
			return nil
		})...)
	}
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	simple("success", command{args: sh("echo out; echo err >&2")})
	simple("code", command{args: sh("echo out; echo err >&2; exit 3")})
	simple("code-255", command{args: sh("exit 255")})
	simple("killed", command{args: sh("kill -9 $$")})
	simple("terminated", command{args: sh("kill $$")})
	simple("no-program", command{args: []string{"none"}})
	simple("no-path", command{args: []string{"/none"}})
	simple("no-permission", command{args: []string{"/etc/passwd"}})
	simple("a-directory", command{args: []string{"/etc"}})
	simple("empty-name", command{args: []string{""}})
	simple("stdout-only", command{args: sh("echo out; echo err >&2; exit 2"), noStderr: true})
	simple("stderr-only", command{args: sh("echo out; echo err >&2; exit 2"), noStdout: true})
	simple("closes-outputs", command{args: sh("exec >&- 2>&-; sleep 1; exit 4")})
	simple("large-output", command{args: sh("head -c 5000000 /dev/zero; head -c 1000000 /dev/zero >&2; exit 5")})
	simple("arguments", command{args: []string{"echo", "a b", "", "ü", "$HOME", "'", "&x=1", "%41"}})
	// A child that holds the outputs when the command has ended.
	simple("background", command{args: sh("sleep 7 & echo out")})
	simple("ordered", command{args: sh("for i in 1 2 3; do echo $i; done; printf last")})

	none := func(*streamRun) io.Reader { return strings.NewReader("") }
	some := func(*streamRun) io.Reader { return strings.NewReader("hello\n") }
	much := func(*streamRun) io.Reader { return bytes.NewReader(pattern()) }
	never := func(r *streamRun) io.Reader { return r.open("") }
	input("stdin-empty", "wc -c", none, nil)
	input("stdin-half", "cat; sleep 1; echo after; exit 6", some, nil)
	input("stdin-large", "cat", much, nil)
	input("stdin-large-counted", "wc -c; echo done >&2", much, nil)
	input("stdin-unread-open", "exit 8", never, nil)
	input("stdin-closed-by-command", "exec <&-; sleep 1; echo out", some, nil)
	input("stdin-one-line", "read x; echo $x; exit 9", func(r *streamRun) io.Reader { return r.open("hello\nmore") }, nil)
	input("stdin-only", "cat > /tmp/$0; wc -c < /tmp/$0 > /tmp/count", some, func(c *command) { c.noStdout, c.noStderr = true, true })
	cases = append(cases, each("exec/stdin-unread", func(r *streamRun, way string) error {
		o := r.start(command{way: way, pod: r.shell(), args: r.marked("exit 7"), stdin: much(r), limit: shortly})
		<-o.done // How it ends depends on what the runtime has read meanwhile.
		r.within("the process has ended", r.ended)
		return nil
	})...)
	cases = append(cases, each("exec/stdin-never", func(r *streamRun, way string) error {
		o := r.start(command{way: way, pod: r.shell(), args: r.marked("cat; echo after"), stdin: r.open("hello\n"), limit: shortly})
		r.sayEnd(o)
		// The client has gone. The shell sees the end of its input.
		r.within("the process has ended", r.ended)
		return nil
	})...)
	return append(cases, terminalCases()...)
}

// sizes is a queue of the sizes of a terminal: the first at once, the others when they are sent.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// terminalCases are commands in a terminal.
func terminalCases() (cases []StreamCase) {
	terminal := func(name, script string, do func(r *streamRun, o *outcome, keys io.Writer, s sizes)) {
		cases = append(cases, each("exec/tty-"+name, func(r *streamRun, way string) error {
			reader, keys := io.Pipe()
			defer keys.Close()
			s := make(sizes, 10)
			s <- remotecommand.TerminalSize{Width: 100, Height: 30}
			o := r.start(command{way: way, pod: r.shell(), args: r.marked(script), stdin: reader, tty: true, sizes: s, noStderr: true})
			do(r, o, keys, s)
			r.sayEnd(o)
			r.within("the process has ended", r.ended)
			return nil
		})...)
	}
	nothing := func(*streamRun, *outcome, io.Writer, sizes) {}
	terminal("is", "tty; echo err >&2; exit 3", nothing)
	terminal("size", "i=0; while [ \"$(stty size 2>/dev/null)\" != '30 100' ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done; stty size", nothing)
	terminal("resize", "sleep 1; trap 'stty size; exit' WINCH; echo ready; while true; do sleep 0.1; done", func(r *streamRun, o *outcome, _ io.Writer, s sizes) {
		r.await(soon, o.has("ready"))
		s <- remotecommand.TerminalSize{Width: 61, Height: 17}
	})
	terminal("interrupt", "trap 'echo interrupted; exit 5' INT; echo ready; while true; do sleep 0.1; done", func(r *streamRun, o *outcome, keys io.Writer, _ sizes) {
		r.await(soon, o.has("ready"))
		io.WriteString(keys, "\x03")
	})
	terminal("interrupted", "echo ready; exec sleep 1000", func(r *streamRun, o *outcome, keys io.Writer, _ sizes) {
		r.await(soon, o.has("ready"))
		io.WriteString(keys, "\x03")
	})
	terminal("end-of-input", "echo ready; cat; echo after", func(r *streamRun, o *outcome, keys io.Writer, _ sizes) {
		r.await(soon, o.has("ready"))
		io.WriteString(keys, "hello\n\x04")
	})
	// The end of the client's input is none of a terminal.
	terminal("input-ends", "echo ready; cat; echo after", func(r *streamRun, o *outcome, keys io.Writer, _ sizes) {
		r.await(soon, o.has("ready"))
		io.WriteString(keys, "hello\n")
		r.await(soon, o.has("hello"))
		keys.(io.Closer).Close()
	})
	terminal("large-output", "stty -opost; head -c 5000000 /dev/zero", nothing)
	for _, stderr := range []bool{false, true} {
		name := map[bool]string{false: "without-input", true: "with-stderr"}[stderr]
		cases = append(cases, each("exec/tty-"+name, func(r *streamRun, way string) error {
			r.execute(command{way: way, pod: r.shell(), args: []string{"sh", "-c", "tty; echo err >&2"}, tty: true, noStderr: !stderr})
			return nil
		})...)
	}
	return cases
}

// refusedCases are requests that are refused, word for word.
func refusedCases() (cases []StreamCase) {
	for _, sub := range []string{"exec", "attach"} {
		for name, c := range map[string]command{
			"no-pod":               {pod: "none", args: []string{"true"}},
			"no-container":         {pod: "two", container: "none", args: []string{"true"}},
			"which-container":      {pod: "two", args: []string{"true"}},
			"second-container":     {pod: "two", container: "b", args: []string{"echo", "b"}, limit: shortly},
			"ended-pod":            {pod: "done", args: []string{"true"}},
			"ended-container":      {pod: "half", container: "over", args: []string{"true"}},
			"waiting-container":    {pod: "unready", args: []string{"true"}},
			"no-command":           {pod: "shell-0", limit: shortly},
			"no-streams":           {pod: "shell-0", args: []string{"true"}, noStdout: true, noStderr: true, limit: shortly},
			"tty-with-stderr-only": {pod: "shell-0", args: []string{"true"}, noStdout: true, tty: true, limit: shortly},
		} {
			cases = append(cases, each(sub+"/refused-"+name, func(r *streamRun, way string) error {
				c := c
				c.way, c.attach = way, sub == "attach"
				r.execute(c)
				return nil
			})...)
		}
	}
	return append(cases, StreamCase{"refused/requests", refusedRequests}, StreamCase{"refused/kubelet", refusedByKubelet})
}

func upgrade(protocol string) http.Header {
	return http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}}
}

// refusedRequests sends requests to the API server.
func refusedRequests(r *streamRun) error {
	for _, path := range []string{
		"/api/v1/namespaces/default/pods/shell-0/exec?command=true&stdout=true",
		"/api/v1/namespaces/default/pods/shell-0/exec",
		"/api/v1/namespaces/default/pods/shell-0/exec?command=true&stdout=maybe",
		"/api/v1/namespaces/default/pods/shell-0/attach?stdout=true",
		"/api/v1/namespaces/default/pods/shell-0/attach",
		"/api/v1/namespaces/default/pods/shell-0/portforward",
		"/api/v1/namespaces/default/pods/shell-0/portforward?ports=80",
		"/api/v1/namespaces/default/pods/done/portforward?ports=80",
		"/api/v1/namespaces/default/pods/none/portforward?ports=80",
		"/api/v1/namespaces/default/pods/unready/portforward?ports=80",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r.ask(method, path, nil)
		}
	}
	for _, protocol := range []string{"none", "SPDY/3.1"} {
		r.ask(http.MethodPost, "/api/v1/namespaces/default/pods/shell-0/exec?command=true&stdout=true", upgrade(protocol))
		r.ask(http.MethodPost, "/api/v1/namespaces/default/pods/shell-0/portforward", upgrade(protocol))
	}
	return nil
}

// refusedByKubelet sends requests to the kubelet through the API server.
func refusedByKubelet(r *streamRun) error {
	for _, path := range []string{
		"exec/default/shell-0/c?command=true&output=1",
		"exec/default/shell-0/c?output=1",
		"exec/default/shell-0/c?command=true",
		"exec/default/shell-0/c?command=true&output=maybe",
		"exec/default/shell-0/c?command=true&tty=1&error=1",
		"exec/default/shell-0/none?command=true&output=1",
		"exec/default/none/c?command=true&output=1",
		"exec/default/shell-0/00000000-0000-0000-0000-000000000000/c?command=true&output=1",
		"exec/default/done/c?command=true&output=1",
		"exec/default/unready/c?command=true&output=1",
		"exec/default/shell-0",
		"attach/default/shell-0/c?output=1",
		"attach/default/shell-0/c",
		"attach/default/shell-0/none?output=1",
		"attach/default/none/c?output=1",
		"attach/default/shell-0/00000000-0000-0000-0000-000000000000/c?output=1",
		"attach/default/done/c?output=1",
		"portForward/default/shell-0",
		"portForward/default/shell-0?port=80",
		"portForward/default/shell-0?port=0",
		"portForward/default/shell-0?port=x",
		"portForward/default/shell-0?port=65536",
		"portForward/default/none",
		"portForward/default/shell-0/00000000-0000-0000-0000-000000000000",
		"portForward/default/done",
		"portForward/default/unready",
		"run/default/shell-0/c?cmd=echo+out",
		"run/default/shell-0/c?cmd=none",
		"run/default/shell-0/none?cmd=true",
		"run/default/none/c?cmd=true",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r.ask(method, "/api/v1/nodes/"+nodeName+"/proxy/"+path, nil)
		}
		if !strings.HasPrefix(path, "run/") {
			r.ask(http.MethodPost, "/api/v1/nodes/"+nodeName+"/proxy/"+path, upgrade("SPDY/3.1"))
		}
	}
	return nil
}
