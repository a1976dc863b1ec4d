package critest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/critest/program"
)

// env is the environment of one check.
type env struct {
	reporter
	Config
	ctx context.Context
	// id is part of the names of what the check makes.
	id        string
	sandboxes []string
}

func random() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (c *Config) lacks(f Feature) bool { return slices.Contains(c.Lacks, f) }

// clean removes the check's sandboxes, with their containers. It does not depend on the check's
// context, which may be done.
func (e *env) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), limit)
	defer cancel()
	for _, id := range e.sandboxes {
		_, err := e.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		if err != nil && !(e.lacks(UnknownStops) && status.Code(err) == codes.NotFound) {
			e.Errorf("clean up: %v", err)
		}
		if _, err := e.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
			e.Errorf("clean up: %v", err)
		}
	}
}

// succeeds ends the check if err is not nil.
func (e *env) succeeds(err error, call string) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", call, err)
	}
}

// fails reports a call that should have failed.
func (e *env) fails(err error, call string) {
	e.Helper()
	if err == nil {
		e.Errorf("%s: it succeeded", call)
	}
}

// failsWith reports a call whose error has another code.
func (e *env) failsWith(code codes.Code, err error, call string) {
	e.Helper()
	if status.Code(err) != code {
		e.Errorf("%s: %v, want the code %v", call, err, code)
	}
}

// eventually waits until done returns true.
func (e *env) eventually(what string, done func() bool) {
	e.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-e.ctx.Done():
			e.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// sandboxConfig returns the configuration of a sandbox, which shares the host's network if the
// runtime has no other.
func (e *env) sandboxConfig(name string) *runtimeapi.PodSandboxConfig {
	network := runtimeapi.NamespaceMode_POD
	if e.lacks(PodNetwork) {
		network = runtimeapi.NamespaceMode_NODE
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "critest", Uid: e.id + name},
		Labels:       map[string]string{"check": e.id},
		LogDirectory: filepath.Join(e.LogRoot, e.id),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: e.CgroupParent,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: network},
			},
		},
	}
}

// runSandbox runs a sandbox, which is removed when the check ends.
func (e *env) runSandbox(config *runtimeapi.PodSandboxConfig) string {
	e.Helper()
	if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
		e.Fatalf("make the log directory: %v", err)
	}
	out, err := e.Runtime.RunPodSandbox(e.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	e.succeeds(err, "run a sandbox")
	id := out.GetPodSandboxId()
	if id == "" {
		e.Fatalf("a sandbox has no id")
	}
	e.sandboxes = append(e.sandboxes, id)
	return id
}

// sandbox runs a sandbox with the given name.
func (e *env) sandbox(name string) (string, *runtimeapi.PodSandboxConfig) {
	e.Helper()
	config := e.sandboxConfig(name)
	return e.runSandbox(config), config
}

// containerConfig returns the configuration of a container that runs package program.
func (e *env) containerConfig(name string, args ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: e.Image},
		Command:  e.Command, Args: args,
		Labels:  map[string]string{"check": e.id, "name": name},
		LogPath: name + ".log",
		Linux:   &runtimeapi.LinuxContainerConfig{},
	}
}

// create creates a container, after it has pulled its image if need be.
func (e *env) create(sandbox string, of *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig) string {
	e.Helper()
	e.needImage()
	out, err := e.Runtime.CreateContainer(e.ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: config, SandboxConfig: of})
	e.succeeds(err, "create a container")
	if out.GetContainerId() == "" {
		e.Fatalf("a container has no id")
	}
	return out.GetContainerId()
}

// needImage pulls the image of containers unless the runtime has it.
func (e *env) needImage() {
	e.Helper()
	if e.image(e.Image) != nil {
		return
	}
	_, err := e.Runtime.PullImage(e.ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: e.Image}})
	e.succeeds(err, "pull the image of containers")
}

func (e *env) start(id string) {
	e.Helper()
	_, err := e.Runtime.StartContainer(e.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	e.succeeds(err, "start a container")
}

// running starts a container in a sandbox of its own and waits until it is ready for signals.
func (e *env) running(name string, args ...string) (sandbox, container string) {
	e.Helper()
	sandbox, of := e.sandbox(name)
	container = e.create(sandbox, of, e.containerConfig(name, args...))
	e.start(container)
	e.ready(name)
	return sandbox, container
}

// ready waits until the log of a container says that it is ready.
func (e *env) ready(name string) {
	e.Helper()
	e.eventually(name+" is ready", func() bool {
		return strings.Contains(e.rawLog(name), " "+program.Ready+"\n")
	})
}

// logPath returns the path of the log of the container with the given name.
func (e *env) logPath(name string) string { return filepath.Join(e.LogRoot, e.id, name+".log") }

func (e *env) stop(id string, grace int64) error {
	_, err := e.Runtime.StopContainer(e.ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace})
	return err
}

func (e *env) remove(id string) error {
	_, err := e.Runtime.RemoveContainer(e.ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}

func (e *env) stopSandbox(id string) error {
	_, err := e.Runtime.StopPodSandbox(e.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

func (e *env) removeSandbox(id string) error {
	_, err := e.Runtime.RemovePodSandbox(e.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// status returns the status of a container.
func (e *env) status(id string) *runtimeapi.ContainerStatus {
	e.Helper()
	out, err := e.Runtime.ContainerStatus(e.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	e.succeeds(err, "container status")
	if out.GetStatus().GetId() != id {
		e.Fatalf("the status of container %q is that of %q", id, out.GetStatus().GetId())
	}
	return out.GetStatus()
}

// statusCode returns the code of the error of ContainerStatus.
func (e *env) statusCode(id string) codes.Code {
	_, err := e.Runtime.ContainerStatus(e.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	return status.Code(err)
}

// exited waits until a container has exited and returns its status.
func (e *env) exited(id string) *runtimeapi.ContainerStatus {
	e.Helper()
	e.eventually("a container exits", func() bool {
		return e.status(id).GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return e.status(id)
}

// sandboxStatus returns the status of a sandbox.
func (e *env) sandboxStatus(id string) *runtimeapi.PodSandboxStatus {
	e.Helper()
	out, err := e.Runtime.PodSandboxStatus(e.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	e.succeeds(err, "sandbox status")
	if out.GetStatus().GetId() != id {
		e.Fatalf("the status of sandbox %q is that of %q", id, out.GetStatus().GetId())
	}
	return out.GetStatus()
}

// containers lists containers.
func (e *env) containers(filter *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	e.Helper()
	out, err := e.Runtime.ListContainers(e.ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	e.succeeds(err, "list containers")
	return out.GetContainers()
}

// listSandboxes lists sandboxes.
func (e *env) listSandboxes(filter *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	e.Helper()
	out, err := e.Runtime.ListPodSandbox(e.ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
	e.succeeds(err, "list sandboxes")
	return out.GetItems()
}

// image returns the status of an image; nil if the runtime does not have it.
func (e *env) image(reference string) *runtimeapi.Image {
	e.Helper()
	out, err := e.Runtime.ImageStatus(e.ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: reference}})
	e.succeeds(err, "image status")
	return out.GetImage()
}

// contains reports whether have holds the pairs of want. A runtime may add pairs of its own.
func contains(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}
