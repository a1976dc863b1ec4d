package critest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxOutput is the size to which a runtime should cut an output (ExecSyncResponse).
const maxOutput = 16 << 20

// exec runs package program in a container.
func (e *env) exec(id string, timeout int64, args ...string) (*runtimeapi.ExecSyncResponse, error) {
	command := append(append([]string{}, e.Command...), args...)
	return e.Runtime.ExecSync(e.ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: timeout})
}

// checkExec: the two outputs are kept apart, and an exit code is no error.
func checkExec(e *env) {
	_, id := e.running("a", "run")
	for _, test := range []struct {
		stdout, stderr, code string
		want                 int32
	}{
		{"hello", "", "0", 0}, {"", "alas", "0", 0}, {"out\n", "err\n", "7", 7}, {"größer\t", "ö", "255", 255},
	} {
		for _, timeout := range []int64{0, 30} {
			out, err := e.exec(id, timeout, "say", test.stdout, test.stderr, test.code)
			e.succeeds(err, "exec")
			if string(out.GetStdout()) != test.stdout || string(out.GetStderr()) != test.stderr || out.GetExitCode() != test.want {
				e.Errorf("%q with the timeout %d: %q, %q, %d", test, timeout, out.GetStdout(), out.GetStderr(), out.GetExitCode())
			}
		}
	}
	e.containerIs(id, containerRunning)
}

// checkExecTimeout: the error is DeadlineExceeded, and the container is not affected.
func checkExecTimeout(e *env) {
	_, id := e.running("a", "run")
	begin := time.Now()
	_, err := e.exec(id, 1, "hang")
	e.failsWith(codes.DeadlineExceeded, err, "exec of a command that hangs")
	if took := time.Since(begin); took < time.Second || took > 30*time.Second {
		e.Errorf("it took %v", took)
	}
	out, err := e.exec(id, 30, "say", "on", "", "0")
	e.succeeds(err, "exec after a timeout")
	if string(out.GetStdout()) != "on" {
		e.Errorf("after a timeout: %q", out.GetStdout())
	}
	ctx, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond)
	defer cancel()
	command := append(append([]string{}, e.Command...), "hang")
	_, err = e.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: 2})
	e.fails(err, "exec by a caller that gives up") // the runtime may answer first, in its own words
}

// checkExecFlood: an output that is too large is cut off or refused.
func checkExecFlood(e *env) {
	_, id := e.running("a", "run")
	out, err := e.exec(id, 30, "flood", "20000000")
	switch {
	case status.Code(err) == codes.ResourceExhausted:
	case err != nil:
		e.Errorf("flood: %v", err)
	case len(out.GetStdout()) > maxOutput || len(out.GetStdout()) < 1<<20:
		e.Errorf("flood: %d bytes", len(out.GetStdout()))
	}
	out, err = e.exec(id, 30, "flood", "1000000")
	e.succeeds(err, "exec after a flood")
	if len(out.GetStdout()) != 1000000 {
		e.Errorf("after a flood: %d bytes", len(out.GetStdout()))
	}
}

// checkExecRefusals: commands need a container that runs.
func checkExecRefusals(e *env) {
	sandbox, of := e.sandbox("a")
	created := e.create(sandbox, of, e.containerConfig("created", "run"))
	_, err := e.exec(created, 5, "say", "", "", "0")
	e.fails(err, "exec in a created container")
	exited := e.create(sandbox, of, e.containerConfig("exited", "exit", "0"))
	e.start(exited)
	e.exited(exited)
	_, err = e.exec(exited, 5, "say", "", "", "0")
	e.fails(err, "exec in an exited container")
}
