package cri_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// serve runs a runtime until the test ends, or stop is called.
func serve(t *testing.T, c memruntime.Config) (stop func()) {
	t.Helper()
	runtime, err := memruntime.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- runtime.Run(ctx) }()
	select {
	case <-runtime.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func Example() {
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	runtime, err := memruntime.New(memruntime.Config{Socket: filepath.Join(dir, "s")})
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- runtime.Run(ctx) }()

	client, err := cri.Dial(ctx, filepath.Join(dir, "s"), cri.Options{})
	if err != nil {
		panic(err)
	}
	v, err := client.Version(ctx, &runtimeapi.VersionRequest{})
	fmt.Println(v.GetRuntimeName(), err)
	client.Close()
	cancel()
	fmt.Println(<-done)
	// Output:
	// memruntime <nil>
	// <nil>
}

func TestDialWaitsAndGivesUp(t *testing.T) {
	path := socket(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := cri.Dial(t.Context(), path, cri.Options{Wait: 100 * time.Millisecond})
		if err == nil || !strings.Contains(err.Error(), "dial runtime "+path+": nobody listens") {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("it took %v to give up", took)
		}
	}) // and no goroutine is left
	if _, err := cri.Dial(t.Context(), "relative", cri.Options{}); err == nil {
		t.Error("a relative path was accepted")
	}
}

func TestDialWaitsForTheSocket(t *testing.T) {
	path := socket(t)
	type result struct {
		client *cri.Client
		err    error
	}
	dialed := make(chan result, 1)
	go func() {
		c, err := cri.Dial(t.Context(), "unix://"+path, cri.Options{})
		dialed <- result{c, err}
	}()
	serve(t, memruntime.Config{Socket: path})
	r := <-dialed
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.client.Close()
}

// TestDialWaitsForTheRuntime: containerd listens before it can answer, and says
// so under the code Unknown.
func TestDialWaitsForTheRuntime(t *testing.T) {
	path := socket(t)
	var asked atomic.Int32
	serve(t, memruntime.Config{Socket: path, Intercept: func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if asked.Add(1) < 3 {
			return nil, status.Error(codes.Unknown, "server is not initialized yet")
		}
		return next(ctx, in)
	}})
	c, err := cri.Dial(t.Context(), path, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestDialRefusesOtherServers(t *testing.T) {
	path := socket(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	defer func() {
		server.Stop()
		<-done
	}()
	if _, err := cri.Dial(t.Context(), path, cri.Options{}); err == nil || !strings.Contains(err.Error(), "does not speak CRI v1") {
		t.Errorf("error: %v", err)
	}
}

func TestLimits(t *testing.T) {
	path := socket(t)
	limits := make(chan time.Duration, 1)
	serve(t, memruntime.Config{Socket: path, Intercept: func(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if !strings.HasSuffix(info.FullMethod, "/Version") {
			deadline, ok := ctx.Deadline()
			if !ok {
				limits <- 0
			} else {
				limits <- time.Until(deadline).Round(time.Minute)
			}
		}
		return next(ctx, in)
	}})
	c, err := cri.Dial(t.Context(), path, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for name, test := range map[string]struct {
		call func() error
		want time.Duration
	}{
		"ListContainers": {func() error { _, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{}); return err }, 2 * time.Minute},
		"StopContainer": {func() error {
			_, err := c.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: "x", Timeout: 600})
			return err
		}, 12 * time.Minute},
		"RunPodSandbox": {func() error { _, err := c.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{}); return err }, 4 * time.Minute},
		"PullImage":     {func() error { _, err := c.PullImage(ctx, &runtimeapi.PullImageRequest{}); return err }, 0},
	} {
		if err := test.call(); err != nil && !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: the error does not name the call: %v", name, err)
		}
		if got := <-limits; got != test.want {
			t.Errorf("%s has %v, want %v", name, got, test.want)
		}
	}
}

// TestStreams: the runtime's refusals name the call, and its URLs are returned.
func TestStreams(t *testing.T) {
	path := socket(t)
	serve(t, memruntime.Config{Socket: path})
	c, err := cri.Dial(t.Context(), path, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, call := range map[string]func() error{
		"Exec": func() error {
			_, err := c.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: "none", Stdout: true})
			return err
		},
		"Attach": func() error {
			_, err := c.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: "none", Stdout: true})
			return err
		},
		"PortForward": func() error {
			_, err := c.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: "none"})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s of an unknown id = %v, want code NotFound and %q in the error", name, err, name+": ")
		}
	}
	if _, err := c.UpdateRuntimeConfig(t.Context(), &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
		NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.0.0.0/24"},
	}}); err != nil {
		t.Fatal(err)
	}
	sandbox, err := c.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox.PodSandboxId})
	if err != nil || !strings.HasPrefix(answer.GetUrl(), "http://127.0.0.1:") {
		t.Errorf("PortForward(%s) = %v, %v, want a URL that starts with http://127.0.0.1:", sandbox.PodSandboxId, answer, err)
	}
}

func TestRuntimeRestarts(t *testing.T) {
	path := socket(t)
	stop := serve(t, memruntime.Config{Socket: path})
	c, err := cri.Dial(t.Context(), path, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop()
	if _, err := c.Status(t.Context(), &runtimeapi.StatusRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("while it is away: %v", err)
	}
	serve(t, memruntime.Config{Socket: path})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if _, err = c.Status(t.Context(), &runtimeapi.StatusRequest{}); err == nil {
			return
		}
		<-tick.C
	}
	t.Errorf("back again: %v", err)
}

// TestObserve: each call is reported once, with its request and its error.
func TestObserve(t *testing.T) {
	path := socket(t)
	defer serve(t, memruntime.Config{Socket: path})()
	var mu sync.Mutex
	var seen []string
	c, err := cri.Dial(t.Context(), path, cri.Options{Observe: func(call string, request any, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := request.(*runtimeapi.ContainerStatusRequest); ok && took >= 0 {
			seen = append(seen, call+" "+status.Code(err).String())
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "none"}); err == nil {
		t.Fatal("there is a container")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 1 || seen[0] != "ContainerStatus NotFound" {
		t.Errorf("observed %q", seen)
	}
}
