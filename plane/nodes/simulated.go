package nodes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Simulated is the behavior of a container in which nothing runs: it says so in its log and to HTTP
// clients on all its ports, and runs until it is stopped. All use the same: a hundredth of a CPU, and
// 16 MiB. Only the commands of [memruntime.Command] do what they always do.
func Simulated(c *runtimeapi.ContainerConfig) memruntime.Behavior {
	text := fmt.Sprintf("%s is simulated: nothing runs\n", c.GetMetadata().GetName())
	b := memruntime.Behavior{
		CPU: 10e6, Memory: 16 << 20, Program: memruntime.MainCommand(c),
		Listen: func(uint16) func(context.Context, net.Conn) { return answer(text) },
	}
	if b.Program == nil {
		b.Output = text
	}
	return b
}

// answer returns what answers all HTTP requests of a connection with text.
func answer(text string) func(context.Context, net.Conn) {
	return func(_ context.Context, conn net.Conn) {
		defer conn.Close()
		for in := bufio.NewReader(conn); ; {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			reply := http.Response{
				StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: request, Close: request.Close,
				Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
			}
			if reply.Write(conn) != nil || request.Close {
				return
			}
		}
	}
}
