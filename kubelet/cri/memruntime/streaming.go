package memruntime

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// errNoProcess is the error of calls that need a process.
var errNoProcess = status.Error(codes.Unimplemented, "containers of the runtime in memory have no processes: there is nothing to connect to")

// Exec always fails: there is no process.
func (r *Runtime) Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return nil, errNoProcess
}

// Attach always fails: there is no process.
func (r *Runtime) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return nil, errNoProcess
}

// PortForward always fails: there is no process.
func (r *Runtime) PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return nil, errNoProcess
}
