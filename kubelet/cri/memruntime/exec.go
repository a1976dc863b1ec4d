package memruntime

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxOutput is the size to which each output of a command is cut (ExecSyncResponse in CRI).
const maxOutput = 16 << 20

// ExecSync returns the result of Config.Exec, or DeadlineExceeded if that takes longer than the
// timeout.
func (r *Runtime) ExecSync(ctx context.Context, in *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	r.mu.Lock()
	c, err := r.running(in.GetContainerId())
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if r.config.Exec == nil {
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	timeout := time.Duration(in.GetTimeout()) * time.Second
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	stdout, stderr, code := r.config.Exec(ctx, c.config, in.GetCmd())
	if err := ctx.Err(); err != nil {
		return nil, status.Errorf(status.FromContextError(err).Code(), "failed to exec in container: timeout %v exceeded: %v", timeout, err)
	}
	return &runtimeapi.ExecSyncResponse{
		Stdout: stdout[:min(len(stdout), maxOutput)], Stderr: stderr[:min(len(stderr), maxOutput)], ExitCode: code,
	}, nil
}
