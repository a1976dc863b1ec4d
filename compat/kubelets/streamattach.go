package kubelets

import (
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"
)

// attachable returns the spec of a pod whose container runs a script, with further fields.
func (r *streamRun) attachable(script, more string) string {
	return fmt.Sprintf("restartPolicy: Never\ncontainers: [{name: c, image: busybox, command: [sh, -c, %q, %s]%s}]", script, r.name, more)
}

// A caseList collects cases.
type caseList []StreamCase

// attach adds a case that attaches to a container, which runs a script. More are further fields of the container.
func (l *caseList) attach(name, script, more string, do func(r *streamRun, c command) error) {
	*l = append(*l, each("attach/"+name, func(r *streamRun, way string) error {
		if err := r.pod(r.attachable(script, more), running); err != nil {
			return err
		}
		return do(r, command{way: way, pod: r.name, attach: true})
	})...)
}

// Fields of a container that has an input, one that ends with the first client's, and a terminal.
const (
	in   = ", stdin: true"
	once = ", stdin: true, stdinOnce: true"
	tty  = ", stdin: true, tty: true"
)

// attachCases attach to containers.
func attachCases() []StreamCase {
	var l caseList
	attachInputs(&l)
	attachTerminals(&l)
	attachEnds(&l)
	return append(l, each("attach/run-rm", runAndRemove)...)
}

func attachInputs(l *caseList) {
	l.attach("once", "cat; echo eof; sleep 1000", once, func(r *streamRun, c command) error {
		c.stdin, c.limit = strings.NewReader("hello\n"), shortly
		r.execute(c)
		r.within("the container has seen the end of its input", r.logHas("eof"))
		return nil
	})
	l.attach("once-ends", "cat; echo eof; exit 4", once, func(r *streamRun, c command) error {
		c.stdin = strings.NewReader("hello\n")
		r.execute(c)
		r.within("the container has seen the end of its input", r.logHas("eof"))
		return nil
	})
	l.attach("once-large", "cat", once, func(r *streamRun, c command) error {
		c.stdin = strings.NewReader(string(pattern()))
		r.execute(c)
		return nil
	})
	l.attach("stdin", "cat; echo eof; sleep 1000", in, func(r *streamRun, c command) error {
		c.stdin, c.limit = strings.NewReader("hello\n"), shortly
		o := r.start(c)
		<-o.done // the output may come too late
		r.say("ended: %v %s", o.ended, shown(o.err))
		r.withinTime(shortly, "the container has seen the end of its input", r.logHas("eof"))
		c.stdin = strings.NewReader("again\n")
		<-r.start(c).done
		r.within("the container has the input of both", r.logHas("hello\nagain\n"))
		return nil
	})
	l.attach("no-stdin", "cat; echo eof; while true; do sleep 0.2; echo tick; done", "", func(r *streamRun, c command) error {
		c.stdin, c.limit = r.open("hello\n"), shortly
		o := r.start(c)
		r.within("output", o.has("tick"))
		<-o.done
		r.say("ended: %v %s", o.ended, shown(o.err))
		return nil
	})
	l.attach("stdout-only", "while true; do echo out; echo err >&2; sleep 0.2; done", "", func(r *streamRun, c command) error {
		c.noStderr, c.limit = true, shortly
		o := r.start(c)
		r.within("output", o.has("out"))
		<-o.done
		r.say("errors: %d", o.stderr.Len())
		return nil
	})
}

func attachTerminals(l *caseList) {
	l.attach("tty", "read x; echo got $x; while [ \"$(stty size 2>/dev/null)\" != '30 100' ]; do sleep 0.1; done; stty size; sleep 1000", tty, func(r *streamRun, c command) error {
		s := make(sizes, 1)
		s <- remotecommand.TerminalSize{Width: 100, Height: 30}
		c.stdin, c.tty, c.noStderr, c.sizes, c.limit = r.open("hello\n"), true, true, s, 3*shortly
		o := r.start(c)
		r.within("output", o.has("got hello"))
		r.within("size", o.has("30 100"))
		<-o.done
		r.withinTime(shortly, "the process has ended", r.ended)
		return nil
	})
	l.attach("tty-not-asked", "read x; echo got $x; exit 3", tty, func(r *streamRun, c command) error {
		c.stdin = r.open("hello\n")
		r.execute(c)
		return nil
	})
	l.attach("tty-asked-without", "read x; echo got $x; tty; exit 3", in, func(r *streamRun, c command) error {
		c.stdin, c.tty, c.noStderr = r.open("hello\n"), true, true
		r.execute(c)
		return nil
	})
}

func attachEnds(l *caseList) {
	l.attach("two", "read x; echo one $x; read x; echo two $x; read x; exit 5", in, func(r *streamRun, c command) error {
		inputs := [2]*io.PipeWriter{}
		outcomes := [2]*outcome{}
		for i := range outcomes {
			c := c
			c.stdin, inputs[i] = io.Pipe()
			outcomes[i] = r.start(c)
		}
		r.await(shortly, func() bool { return false }) // both are attached
		io.WriteString(inputs[0], "a\n")
		r.within("the first sees its own", outcomes[0].has("one a"))
		r.within("the second sees that of the first", outcomes[1].has("one a"))
		io.WriteString(inputs[1], "b\n")
		r.within("the first sees that of the second", outcomes[0].has("two b"))
		r.within("the second sees its own", outcomes[1].has("two b"))
		io.WriteString(inputs[0], "c\n")
		for i := range outcomes {
			r.sayEnd(outcomes[i])
			inputs[i].Close()
		}
		return nil
	})
	l.attach("ends", "sleep 4; echo bye; sleep 1; echo err >&2; sleep 1; exit 4", in, func(r *streamRun, c command) error {
		c.stdin = r.open("")
		r.execute(c)
		return nil
	})
	l.attach("output-ends", "sleep 4; exec >&- 2>&-; sleep 2; exit 4", "", func(r *streamRun, c command) error {
		r.execute(c)
		return nil
	})
	l.attach("raw-v4", "read x; echo got $x; exit 6", in, func(r *streamRun, c command) error {
		c.stdin = strings.NewReader("")
		conn, ok := r.dial(r.config, c.path(), "v4.channel.k8s.io")
		if !ok {
			return nil
		}
		defer conn.Close()
		m := collect(conn, soon)
		if err := conn.WriteMessage(2, []byte("\x00hello\n")); err != nil {
			return err
		}
		r.sayMessages(m)
		return nil
	})
}

// runAndRemove does what kubectl run -i --rm does.
func runAndRemove(r *streamRun, way string) error {
	if err := r.pod(r.attachable("cat; echo end; exit 3", ", stdin: true, stdinOnce: true"), running); err != nil {
		return err
	}
	r.execute(command{way: way, pod: r.name, attach: true, stdin: strings.NewReader("hello\n")})
	pods := r.api.CoreV1().Pods(namespace)
	r.within("the pod has ended", func() bool {
		pod, err := pods.Get(r.ctx, r.name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodFailed && pod.Status.ContainerStatuses[0].State.Terminated.ExitCode == 3
	})
	r.say("log: %q", r.log())
	if err := pods.Delete(r.ctx, r.name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	r.within("the pod is gone", func() bool {
		_, err := pods.Get(r.ctx, r.name, metav1.GetOptions{})
		return err != nil
	})
	return nil
}

// endCases end one end of a stream while it is in use.
func endCases() (cases []StreamCase) {
	// cut adds a case in which the client's connection is cut.
	cut := func(name, script, more string, attach bool, change func(*command)) {
		cases = append(cases, each(name, func(r *streamRun, way string) error {
			own := r.attachable(script, more)
			if !attach {
				own = "containers: [{name: c, image: busybox, command: [sleep, '100000']}]"
			}
			if err := r.pod(own, running); err != nil {
				return err
			}
			config, cutter, err := r.cutter()
			if err != nil {
				return err
			}
			defer cutter.cut()
			c := command{way: way, pod: r.name, attach: attach, config: config, stdin: r.open("ready\n"), limit: 2 * soon}
			if !attach {
				c.args = r.marked(script)
			}
			if change != nil {
				change(&c)
			}
			o := r.start(c)
			if !r.within("it runs", o.has("ready")) {
				return nil
			}
			cutter.cut()
			<-o.done
			r.withinTime(2*shortly, "the process has ended", r.ended)
			if attach {
				r.withinTime(shortly, "the container has seen the end of its input", r.logHas("eof"))
				r.say("attaches again")
				c.config, c.limit, c.stdin = nil, shortly, strings.NewReader("more\n")
				o := r.start(c)
				<-o.done
				r.say("ended: %v %s", o.ended, shown(o.err))
				r.withinTime(shortly, "the container has got more", r.logHas("more"))
			}
			return nil
		})...)
	}
	terminal := func(c *command) { c.tty, c.noStderr = true, true }
	noInput := func(c *command) { c.stdin = nil }
	cut("exec/cut-reads", "cat; echo eof", "", false, nil)
	cut("exec/cut-sleeps", "echo ready; sleep 1000; echo woken", "", false, noInput)
	cut("exec/cut-writes", "while true; do echo ready; sleep 0.1; done", "", false, noInput)
	cut("exec/cut-tty-reads", "cat; echo eof", "", false, terminal)
	cut("exec/cut-tty-sleeps", "echo ready; sleep 1000; echo woken", "", false, terminal)
	cut("exec/cut-tty-writes", "while true; do echo ready; sleep 0.1; done", "", false, terminal)
	cut("attach/cut-once", "cat; echo eof; sleep 1000", ", stdin: true, stdinOnce: true", true, nil)
	cut("attach/cut-stdin", "cat; echo eof; sleep 1000", ", stdin: true", true, nil)
	cut("attach/cut-tty", "cat; echo eof; sleep 1000", ", stdin: true, tty: true", true, terminal)
	cut("attach/cut-tty-once", "cat; echo eof; sleep 1000", ", stdin: true, stdinOnce: true, tty: true", true, terminal)
	cut("attach/cut-output", "while true; do echo ready; sleep 0.1; done", "", true, func(c *command) { c.stdin = nil; c.noStderr = true })

	for _, sub := range []string{"exec", "attach"} {
		for _, how := range []string{"killed", "deleted-at-once", "deleted", "deleted-with-grace"} {
			for _, tty := range []bool{false, true} {
				name := sub + "/container-" + how
				if tty {
					name += "-tty"
				}
				cases = append(cases, each(name, func(r *streamRun, way string) error { return containerEnds(r, way, sub, how, tty) })...)
			}
		}
	}
	return cases
}

// containerEnds ends a container to which a client has a stream.
func containerEnds(r *streamRun, way, sub, how string, tty bool) error {
	const begin = "stty -echo 2>/dev/null; exec 3<&0; echo begun; "
	spec := r.attachable(begin+"trap 'echo terminated; sleep 0.3; exit 7' TERM; cat <&3 & while true; do sleep 0.1; done", fmt.Sprintf(", stdin: true, tty: %v", tty))
	if how == "deleted-at-once" { // it may not have the time for more
		spec = r.attachable(begin+"cat <&3 & while true; do sleep 0.1; done", fmt.Sprintf(", stdin: true, tty: %v", tty))
	}
	if how == "deleted-with-grace" {
		spec = "terminationGracePeriodSeconds: 3\n" + r.attachable(begin+"trap 'echo terminated' TERM; cat <&3 & while true; do sleep 0.1; done", fmt.Sprintf(", stdin: true, tty: %v", tty))
	}
	if err := r.pod(spec, running); err != nil {
		return err
	}
	if !r.await(soon, r.logHas("begun")) {
		return fmt.Errorf("%s does not begin", r.name)
	}
	pids := r.processes()
	c := command{way: way, pod: r.name, attach: sub == "attach", stdin: r.open("ready\n"), tty: tty, noStderr: tty, limit: 2 * soon}
	if sub == "exec" {
		c.args, c.stdin = []string{"sh", "-c", "echo ready; cat; echo after; sleep 1000"}, r.open("")
	}
	o := r.start(c)
	if !r.within("it runs", o.has("ready")) && sub == "exec" {
		return nil
	}
	switch how {
	case "killed":
		if len(pids) == 0 {
			return fmt.Errorf("no process of %s", r.name)
		}
		r.kill()
	case "deleted-at-once":
		if err := r.delete(0); err != nil {
			return err
		}
	case "deleted":
		if err := r.delete(1); err != nil {
			return err
		}
	default:
		if err := r.delete(3); err != nil {
			return err
		}
	}
	r.sayEnd(o)
	return nil
}
