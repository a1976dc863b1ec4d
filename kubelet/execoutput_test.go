package kubelet

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// loud is a runtime in which a command prints as much as a runtime passes on.
type loud struct {
	*memruntime.Runtime
	stdout, stderr []byte
}

func (l *loud) ExecSync(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return &runtimeapi.ExecSyncResponse{Stdout: l.stdout, Stderr: l.stderr, ExitCode: 3}, nil
}

// TestOutputIsBounded: probes and hooks get the beginning of an output, without the memory of the rest.
func TestOutputIsBounded(t *testing.T) {
	large := []byte(strings.Repeat("x", 8<<20))
	for name, test := range map[string]struct {
		stdout, stderr []byte
		want           int
	}{
		"both large": {large, large, maxOutput}, "errors only": {nil, large, maxOutput}, "both small": {[]byte("out"), []byte("err"), 6}, "none": {nil, nil, 0},
	} {
		out, code, err := executes(&loud{stdout: test.stdout, stderr: test.stderr})(t.Context(), "id", nil, time.Second)
		if err != nil || code != 3 || len(out) != test.want || cap(out) > 2*maxOutput {
			t.Errorf("%s: %d bytes of %d, code %d: %v", name, len(out), cap(out), code, err)
		}
	}
}
