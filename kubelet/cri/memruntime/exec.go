package memruntime

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxOutput is the size to which each output of a command is cut (ExecSyncResponse in CRI).
const maxOutput = 16 << 20

// ExecSync returns the outputs and the exit code of a command, or DeadlineExceeded if it takes longer
// than the timeout.
func (r *Runtime) ExecSync(ctx context.Context, in *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	r.mu.Lock()
	c, err := r.running(in.GetContainerId())
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	program, err := r.command(c, in.GetCmd())
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	timeout := time.Duration(in.GetTimeout()) * time.Second
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	var stdout, stderr capture
	code := program(run, Streams{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr})
	if err := ctx.Err(); err != nil {
		return nil, status.Errorf(status.FromContextError(err).Code(), "failed to exec in container: timeout %v exceeded: %v", timeout, err)
	}
	if c.life.Err() != nil {
		code = exitKilled
	}
	return &runtimeapi.ExecSyncResponse{Stdout: stdout.take(), Stderr: stderr.take(), ExitCode: code}, nil
}

// capture keeps the beginning of an output.
type capture struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(p[:min(len(p), maxOutput-c.out.Len())])
	return len(p), nil
}

// take returns what was written.
func (c *capture) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Bytes()
}
