package critest

import (
	"context"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// limit is the time after which a check counts as stuck.
const limit = time.Minute

// A Feature is a part of CRI that a runtime may lack.
type Feature string

// The features.
const (
	// PodNetwork: sandboxes outside the host's network get addresses. Without it, all sandboxes use
	// the host's network.
	PodNetwork Feature = "pod network"
	// Pulls: the references in Config.Images can be pulled.
	Pulls Feature = "pulls"
	// Events: the runtime reports container events.
	Events Feature = "events"
	// Streaming: the runtime gives URLs for exec, attach and port-forward, which this process can
	// reach.
	Streaming Feature = "streaming"
	// Resources: the status of a container has its resources.
	Resources Feature = "resources"
	// ImageFilters: a list of images has only those that match its filter. containerd 1.6 lists all.
	ImageFilters Feature = "image filters"
	// UnknownStops: to stop a sandbox or a container that does not exist succeeds. In containerd 1.6 it is
	// an error.
	UnknownStops Feature = "unknown stops"
)

// Images are references for the checks of images. Checks pull and remove them.
type Images struct {
	// Tagged has a tag.
	Tagged string
	// Digested has a digest and no tag. It may be the same image as Tagged.
	Digested string
	// Missing is well-formed, but the registry does not have it.
	Missing string
}

// Config configures Run.
type Config struct {
	// Runtime is a connection to the runtime.
	Runtime Runtime
	// Image is the image of the containers. The runtime must have it or be able to pull it.
	Image string
	// Command is the path of package program in Image.
	Command []string
	// LogRoot is the absolute path of an existing directory for logs.
	LogRoot string
	// CgroupParent is the cgroup of sandboxes. Empty leaves it to the runtime.
	CgroupParent string
	// Images is needed unless the runtime lacks Pulls.
	Images Images
	// Lacks names the features that the runtime does not have.
	Lacks []Feature
}

// Runtime is the part of CRI that is checked.
type Runtime interface {
	Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error)
	Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error)

	RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error)
	PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error)
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)

	CreateContainer(context.Context, *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error)
	StartContainer(context.Context, *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error)
	StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error)
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
	UpdateContainerResources(context.Context, *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error)
	ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error)
	ExecSync(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error)
	Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
	ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error)
	ContainerEvents(context.Context, func(*runtimeapi.ContainerEventResponse)) error

	PullImage(context.Context, *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error)
	ImageStatus(context.Context, *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error)
	ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error)
	RemoveImage(context.Context, *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error)
	ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error)
}

// A reporter is the part of testing.T that checks use, so that the suite's own tests can check that
// it detects broken runtimes.
type reporter interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A check tests one expectation.
type check struct {
	name string
	run  func(*env)
	// of is the feature that the check tests; empty for required behaviour.
	of Feature
}

func checks() []check {
	return []check{
		{name: "version", run: checkVersion},
		{name: "conditions", run: checkConditions},

		{name: "sandbox life", run: checkSandboxLife},
		{name: "sandbox attributes", run: checkSandboxAttributes},
		{name: "sandbox name", run: checkSandboxName},
		{name: "sandbox filters", run: checkSandboxFilters},
		{name: "sandbox addresses", run: checkAddresses, of: PodNetwork},
		{name: "sandbox with containers", run: checkSandboxWithContainers},
		{name: "sandbox refusals", run: checkSandboxRefusals},

		{name: "container life", run: checkContainerLife},
		{name: "container attributes", run: checkContainerAttributes},
		{name: "container attempts", run: checkAttempts},
		{name: "container filters", run: checkContainerFilters},
		{name: "container exit", run: checkExit},
		{name: "container refusals", run: checkContainerRefusals},
		{name: "remove container", run: checkRemoveContainer},
		{name: "stop gracefully", run: checkStopGracefully},
		{name: "stop at once", run: checkStopAtOnce},
		{name: "stop a stubborn container", run: checkStopStubborn},
		{name: "unknown", run: checkUnknown},
		{name: "idempotence", run: checkIdempotence},

		{name: "exec", run: checkExec},
		{name: "exec timeout", run: checkExecTimeout},
		{name: "exec flood", run: checkExecFlood},
		{name: "exec refusals", run: checkExecRefusals},

		{name: "stream a command", run: checkStreamCommand, of: Streaming},
		{name: "stream a terminal", run: checkStreamTerminal, of: Streaming},
		{name: "stream input", run: checkStreamInput, of: Streaming},
		{name: "stream refusals", run: checkStreamRefusals, of: Streaming},
		{name: "attach", run: checkAttach, of: Streaming},
		{name: "attach without an end of input", run: checkAttachDetach, of: Streaming},
		{name: "port-forward", run: checkPortForward, of: Streaming},

		{name: "log", run: checkLog},
		{name: "log long lines", run: checkLongLines},
		{name: "reopen log", run: checkReopenLog},

		{name: "update resources", run: checkUpdateResources},
		{name: "resource status", run: checkResourceStatus, of: Resources},
		{name: "stats", run: checkStats},
		{name: "events", run: checkEvents, of: Events},

		{name: "pull by tag", run: checkPullByTag, of: Pulls},
		{name: "pull by digest", run: checkPullByDigest, of: Pulls},
		{name: "pull what is missing", run: checkPullMissing, of: Pulls},
		{name: "image references", run: checkImageReferences},
		{name: "image file system", run: checkImageFileSystem},
	}
}

// Run checks a runtime: pulls one after the other, everything else at the same time.
func Run(t *testing.T, c Config) {
	t.Helper()
	for _, check := range checks() {
		if check.of == Pulls && !c.lacks(Pulls) {
			t.Run(check.name, func(t *testing.T) { check.on(t, c) })
		}
	}
	t.Run("at the same time", func(t *testing.T) {
		for _, check := range checks() {
			switch {
			case c.lacks(check.of):
				t.Logf("%s is not checked: the runtime lacks %s", check.name, check.of)
			case check.of != Pulls:
				t.Run(check.name, func(t *testing.T) {
					t.Parallel()
					check.on(t, c)
				})
			}
		}
	})
}

// on runs the check and removes its sandboxes.
func (c check) on(t reporter, config Config) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	e := &env{reporter: t, Config: config, ctx: ctx, id: random()}
	defer e.clean()
	c.run(e)
}
