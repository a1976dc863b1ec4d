// Command kubeletscri serves the in-process runtime (package memruntime) at a socket, until it is interrupted, so
// that programs such as critest can use it:
//
//	go -C compat run ./kubeletscri /tmp/cri.sock
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubeletscri:", err)
		os.Exit(1)
	}
}

// run serves the runtime at the socket that is the only argument.
func run(ctx context.Context, arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("the only argument is the path of a socket")
	}
	runtime, err := memruntime.New(memruntime.Config{Socket: arguments[0]})
	if err != nil {
		return err
	}
	// The range of pod addresses, which nothing routes, comes from a kubelet otherwise.
	if _, err := runtime.UpdateRuntimeConfig(ctx, &runtimeapi.UpdateRuntimeConfigRequest{
		RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.61.0.0/24"}},
	}); err != nil {
		return err
	}
	return runtime.Run(ctx)
}
