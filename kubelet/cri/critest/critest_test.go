package critest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/critest/program"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// behave returns the behavior of a container that runs package program.
func behave(c *runtimeapi.ContainerConfig) memruntime.Behavior {
	switch args := c.GetArgs(); args[0] {
	case "exit":
		code, _ := strconv.Atoi(args[1])
		return memruntime.Behavior{Exits: true, ExitCode: int32(code), Output: strings.Join(append(args[2:], ""), "\n")}
	case "stubborn":
		return memruntime.Behavior{IgnoresTerm: true, Output: program.Ready + "\n"}
	case "copy":
		return memruntime.Behavior{Program: execute(c, append(c.GetCommand(), args...))}
	case "serve":
		return memruntime.Behavior{Output: "port 8080\n", Listen: func(port uint16) func(context.Context, net.Conn) {
			if port != 8080 {
				return nil
			}
			return func(_ context.Context, conn net.Conn) { program.Echo(conn) }
		}}
	default:
		return memruntime.Behavior{Output: program.Ready + "\n"}
	}
}

func execute(_ *runtimeapi.ContainerConfig, command []string) memruntime.Program {
	return func(ctx context.Context, s memruntime.Streams) int32 {
		return int32(program.Command(ctx, command[1:], s.Stdin, s.Stdout, s.Stderr))
	}
}

// pull is a registry that has everything but the images named missing.
func pull(_ context.Context, reference string, _ *runtimeapi.AuthConfig) error {
	if strings.Contains(reference, "missing") {
		return memruntime.ErrMissing
	}
	return nil
}

// start runs a runtime in memory until the test ends and returns a configuration to check it.
func start(t *testing.T, change func(*memruntime.Config)) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := memruntime.Config{Socket: filepath.Join(dir, "s"), Behave: behave, Exec: execute, Pull: pull}
	if change != nil {
		change(&c)
	}
	runtime, err := memruntime.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- runtime.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	client, err := cri.Dial(t.Context(), c.Socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.UpdateRuntimeConfig(t.Context(), &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
		NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.1.0.0/24,fd00::/112"},
	}}); err != nil {
		t.Fatal(err)
	}
	return Config{
		Runtime: client, Image: "registry.test/program:1", Command: []string{"/program"}, LogRoot: t.TempDir(),
		Images: Images{
			Tagged: "registry.test/tagged:1", Digested: "registry.test/digested@sha256:" + strings.Repeat("1", 64), Missing: "registry.test/missing:1",
		},
	}
}

func TestMemruntime(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("runtime", func(t *testing.T) { Run(t, start(t, nil)) })
}
