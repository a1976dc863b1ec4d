package memruntime_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// Example pulls an image, runs a container and reads its exit code.
func Example() {
	dir, err := os.MkdirTemp("", "mem")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	runtime, err := memruntime.New(memruntime.Config{
		Socket: filepath.Join(dir, "s"),
		Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
			return memruntime.Behavior{Exits: true, ExitCode: 3}
		},
	})
	if err != nil {
		panic(err)
	}
	go runtime.Run(ctx)
	client, err := cri.Dial(ctx, filepath.Join(dir, "s"), cri.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	client.UpdateRuntimeConfig(ctx, &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
		NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.0.0.0/24"},
	}})
	client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "nginx"}})
	sandbox, err := client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig("web", 0)})
	if err != nil {
		panic(err)
	}
	container, err := client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, Config: containerConfig("c", 0)})
	if err != nil {
		panic(err)
	}
	client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: container.ContainerId})
	for {
		s, err := client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container.ContainerId})
		if err != nil {
			panic(err)
		}
		if s.Status.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			fmt.Println(s.Status.ExitCode, s.Status.Reason)
			return
		}
	}
	// Output: 3 Error
}

func sandboxConfig(name string, attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name, Attempt: attempt},
		Labels:   map[string]string{"name": name},
	}
}

func containerConfig(name string, attempt uint32) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: "nginx"},
	}
}

type harness struct {
	*cri.Client
	t       *testing.T
	runtime *memruntime.Runtime
	stop    func() // ends the runtime before the test ends
}

func start(t *testing.T, c memruntime.Config) *harness {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			goleak.VerifyNone(t)
		}
	})
	dir, err := os.MkdirTemp("", "mem") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c.Socket = filepath.Join(dir, "s")
	runtime, err := memruntime.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- runtime.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	client, err := cri.Dial(ctx, c.Socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &harness{client, t, runtime, stop}
}

func (h *harness) setRange(cidr string) {
	h.t.Helper()
	_, err := h.UpdateRuntimeConfig(h.t.Context(), &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
		NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidr},
	}})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) sandbox(name string, attempt uint32) (string, error) {
	out, err := h.RunPodSandbox(h.t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig(name, attempt)})
	return out.GetPodSandboxId(), err
}

// running makes a running container in a new sandbox.
func (h *harness) running(name string) (sandbox, container string) {
	h.t.Helper()
	if _, err := h.PullImage(h.t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "nginx"}}); err != nil {
		h.t.Fatal(err)
	}
	sandbox, err := h.sandbox(name, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := h.CreateContainer(h.t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: containerConfig("c", 0)})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.StartContainer(h.t.Context(), &runtimeapi.StartContainerRequest{ContainerId: out.ContainerId}); err != nil {
		h.t.Fatal(err)
	}
	return sandbox, out.ContainerId
}

func (h *harness) status(id string) *runtimeapi.ContainerStatus {
	h.t.Helper()
	out, err := h.ContainerStatus(h.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Status
}

func (h *harness) address(sandbox string) string {
	h.t.Helper()
	out, err := h.PodSandboxStatus(h.t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Status.Network.Ip
}

func TestNetworkReadyWithRange(t *testing.T) {
	h := start(t, memruntime.Config{})
	ready := func() bool {
		out, err := h.Status(t.Context(), &runtimeapi.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range out.Status.Conditions {
			if c.Type == runtimeapi.NetworkReady {
				return c.Status
			}
		}
		return false
	}
	if ready() {
		t.Error("ready without a range")
	}
	if _, err := h.sandbox("web", 0); err == nil {
		t.Error("a sandbox without a range")
	}
	h.setRange("10.0.0.0/29")
	if !ready() {
		t.Error("not ready with a range")
	}
	// .0 and .1 and .7 are not for pods; a freed address is given last.
	var ids []string
	for i, want := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"} {
		id, err := h.sandbox(fmt.Sprint("web", i), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.address(id); got != want {
			t.Errorf("sandbox %d has %s, want %s", i, got, want)
		}
		ids = append(ids, id)
	}
	if _, err := h.sandbox("full", 0); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("in a full range: %v", err)
	}
	if _, err := h.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: ids[3]}); err != nil {
		t.Fatal(err)
	}
	again, err := h.sandbox("full", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.address(again); got != "10.0.0.5" {
		t.Errorf("after one was freed: %s", got)
	}
	if _, err := h.UpdateRuntimeConfig(t.Context(), &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
		NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "nonsense"},
	}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("nonsense: %v", err)
	}
}

func TestNamesAreReserved(t *testing.T) {
	h := start(t, memruntime.Config{})
	h.setRange("10.0.0.0/24")
	id, err := h.sandbox("web", 0)
	if err != nil || !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(id) {
		t.Fatal(id, err)
	}
	_, err = h.sandbox("web", 0)
	if want := fmt.Sprintf("name %q is reserved for %q", "web_default_uid-web_0", id); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := h.sandbox("web", 1); err != nil {
		t.Error(err)
	}
	for range 2 {
		if _, err := h.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.sandbox("web", 0); err != nil {
		t.Errorf("after removal: %v", err)
	}
}

func TestContainerLife(t *testing.T) {
	h := start(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{TermCode: 143}
	}})
	h.setRange("10.0.0.0/24")
	sandbox, id := h.running("web")
	s := h.status(id)
	if s.State != runtimeapi.ContainerState_CONTAINER_RUNNING || s.StartedAt <= s.CreatedAt || s.FinishedAt != 0 || s.ImageRef == "" {
		t.Errorf("running: %v", s)
	}
	if out, err := h.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"true"}}); err != nil || out.ExitCode != 0 {
		t.Errorf("exec: %v %v", out, err)
	}
	for range 2 {
		if _, err := h.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30}); err != nil {
			t.Error(err)
		}
	}
	if s := h.status(id); s.ExitCode != 143 || s.Reason != "Error" || s.FinishedAt <= s.StartedAt {
		t.Errorf("stopped: %v", s)
	}
	if _, err := h.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err == nil {
		t.Error("an exited container was started")
	}
	for range 2 {
		if _, err := h.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
			t.Error(err)
		}
		if _, err := h.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
			t.Error(err)
		}
	}
	if h.address(sandbox) != "" {
		t.Error("a stopped sandbox has an address")
	}
	if _, err := h.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id}); status.Code(err) != codes.NotFound {
		t.Errorf("removed: %v", err)
	}
	list, err := h.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"name": "other"}}})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("of another name: %v %v", list, err)
	}
}

func TestStubbornContainerIsKilled(t *testing.T) {
	h := start(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{IgnoresTerm: true}
	}})
	h.setRange("10.0.0.0/24")
	_, id := h.running("web")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 3600}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error: %v", err)
	}
	if s := h.status(id); s.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after its stopper gave up: %v", s.State)
	}
	if _, err := h.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 1}); err != nil {
		t.Error(err)
	}
	if s := h.status(id); s.ExitCode != 137 {
		t.Errorf("killed: %v", s)
	}
}

func TestImages(t *testing.T) {
	h := start(t, memruntime.Config{Pull: func(_ context.Context, reference string, auth *runtimeapi.AuthConfig) error {
		switch {
		case reference == "docker.io/library/missing:latest":
			return memruntime.ErrMissing
		case auth.GetPassword() != "pw" && strings.HasPrefix(reference, "r.example/"):
			return memruntime.ErrDenied
		}
		return nil
	}})
	pull := func(image string, auth *runtimeapi.AuthConfig) error {
		_, err := h.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}, Auth: auth})
		return err
	}
	if err := pull("missing", nil); status.Code(err) != codes.NotFound {
		t.Errorf("missing: %v", err)
	}
	if err := pull("r.example/a", nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("denied: %v", err)
	}
	if err := pull("r.example/a", &runtimeapi.AuthConfig{Password: "pw"}); err != nil {
		t.Error(err)
	}
	if err := pull("Not An Image", nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("malformed: %v", err)
	}
	if err := pull("nginx", nil); err != nil {
		t.Error(err)
	}
	get := func(image string) *runtimeapi.Image {
		out, err := h.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Image
	}
	image := get("nginx")
	for _, name := range []string{"docker.io/library/nginx", "nginx:latest", image.GetId(), image.GetRepoDigests()[0]} {
		if get(name).GetId() != image.GetId() {
			t.Errorf("%s is not %s", name, image.GetId())
		}
	}
	for range 2 {
		if _, err := h.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "nginx"}}); err != nil {
			t.Error(err)
		}
	}
	if get("nginx") != nil {
		t.Error("a removed image is there")
	}
}

func TestEventsAndLogs(t *testing.T) {
	h := start(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{Output: "one\ntwo\n"}
	}})
	h.setRange("10.0.0.0/24")
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan runtimeapi.ContainerEventType, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) { events <- e.ContainerEventType })
	}()
	defer func() {
		cancel()
		<-done
	}()
	// The stream may not be open yet: make containers until it reports one.
	var last runtimeapi.ContainerEventType
	for i := 0; last != runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT; i++ {
		sandbox, _ := h.running(fmt.Sprint("web", i))
		if _, err := h.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
			t.Fatal(err)
		}
		for len(events) > 0 {
			last = <-events
		}
	}

	dir := t.TempDir()
	config := sandboxConfig("log", 0)
	config.LogDirectory = dir
	out, err := h.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	c := containerConfig("c", 0)
	c.LogPath = "c/0.log"
	made, err := h.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: out.PodSandboxId, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "c/0.log"))
	if err != nil || !regexp.MustCompile(`^\S+Z stdout F one\n\S+Z stdout F two\n$`).Match(log) {
		t.Errorf("log %q %v", log, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, socket := range []string{"", "relative", "/" + strings.Repeat("x", 200)} {
		if _, err := memruntime.New(memruntime.Config{Socket: socket}); err == nil {
			t.Errorf("socket %q was accepted", socket)
		}
	}
}

func TestUpdateResources(t *testing.T) {
	h := start(t, memruntime.Config{})
	h.setRange("10.0.0.0/24")
	_, id := h.running("web")
	update := func(r *runtimeapi.LinuxContainerResources) error {
		_, err := h.UpdateContainerResources(t.Context(), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: r})
		return err
	}
	if err := update(&runtimeapi.LinuxContainerResources{CpuShares: 512, CpuQuota: 50000, CpuPeriod: 100000}); err != nil {
		t.Fatal(err)
	}
	if err := update(&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if got := h.status(id).GetResources().GetLinux(); got.GetCpuShares() != 512 || got.GetCpuQuota() != 50000 || got.GetMemoryLimitInBytes() != 1<<20 {
		t.Errorf("resources: %+v", got)
	}
	if _, err := h.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	if err := update(&runtimeapi.LinuxContainerResources{CpuShares: 2}); err == nil {
		t.Error("a container that has exited was updated")
	}
	id = "none"
	if err := update(&runtimeapi.LinuxContainerResources{CpuShares: 2}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}
