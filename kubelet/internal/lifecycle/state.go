package lifecycle

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/resize"
	"github.com/planekit/planekit/kubelet/probe"
)

// State is the runtime's state of one pod.
type State struct {
	// Sandboxes and Containers are newest first: by attempt, then by creation.
	Sandboxes  []Sandbox
	Containers []Container
	// Probes says by name what the probes of the running containers have found.
	Probes map[string]probe.State
	// Actuated holds by name the sizes that the runtime was last given. A container without one has an
	// unknown size.
	Actuated map[string]corev1.ResourceRequirements
	// Cgroup holds the limits that were last written to the pod's cgroup; nil if they are unknown or
	// if there is none.
	Cgroup *cgroup.Limits
}

// health returns what the probes say about a running container. Without a word from them, it is
// started and ready unless it has probes that decide this.
func (s *State) health(spec *corev1.Container) probe.State {
	if state, ok := s.Probes[spec.Name]; ok {
		return state
	}
	return probe.State{Started: spec.StartupProbe == nil, Ready: spec.StartupProbe == nil && spec.ReadinessProbe == nil}
}

// Sandbox is the runtime's state of one sandbox.
type Sandbox struct {
	ID          string
	Attempt     uint32
	Ready       bool
	HostNetwork bool
	IPs         []string
}

// Phase is the phase of a container in the runtime.
type Phase int

// The phases of a container: Created is one that was never started, Unknown one that the runtime
// says nothing about.
const (
	Unknown Phase = iota
	Created
	Running
	Exited
)

// Container is the runtime's state of one container.
type Container struct {
	ID      string
	Sandbox string // the ID of its sandbox
	Name    string
	Attempt uint32
	// Round counts how often all containers of the pod had been restarted in place when it was created.
	Round uint32
	// First means that it is the first of its name in its round.
	First bool
	// Spec is the fingerprint of the container spec from which it was created.
	Spec     string
	Phase    Phase
	Created  time.Time
	Started  time.Time
	Finished time.Time
	ExitCode int32
	Reason   string
	Message  string
	Image    string // the name for users
	ImageID  string
	// Size holds the resources of a running container that the runtime reports; nil if it does not.
	Size *resize.Reported
	// User is who its first process runs as; nil if the runtime does not say.
	User *corev1.LinuxContainerUser
	// recalled means that the container is in the pod's status but no longer in the runtime.
	recalled bool
}

// Sandbox returns the newest sandbox if it is ready.
func (s *State) Sandbox() *Sandbox {
	if len(s.Sandboxes) > 0 && s.Sandboxes[0].Ready {
		return &s.Sandboxes[0]
	}
	return nil
}

// latest returns the newest container called name in any sandbox; nil if there is none.
func (s *State) latest(name string) *Container {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// LatestIn returns the newest container called name in one sandbox; nil if there is none.
func (s *State) LatestIn(sandbox, name string) *Container {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.Sandbox == sandbox {
			return c
		}
	}
	return nil
}

// Running counts the containers that run or may run.
func (s *State) Running() int {
	n := 0
	for _, c := range s.Containers {
		if c.Phase == Running || c.Phase == Unknown {
			n++
		}
	}
	return n
}

// Memory is the state of a pod that cannot be read from the runtime. Losing it only makes backoffs
// start over.
type Memory struct {
	// Restarts is by container name.
	Restarts map[string]Backoff
	// Pulls is by container name.
	Pulls map[string]PullFailure
	// Starts holds the failures to create or start containers, by name.
	Starts map[string]StartFailure
	// Unhealthy holds by name the IDs of the containers that were stopped because a probe failed, or
	// because they must be restarted to be resized.
	Unhealthy map[string]string
	// SandboxAttempt is the lowest attempt number that may be free.
	SandboxAttempt uint32
	// Rejection, if not nil, is why the pod must not stay on the node.
	Rejection *Rejection
	// SandboxFailed is when creating a sandbox last failed; zero if it did not.
	SandboxFailed time.Time
}

// NewMemory returns a memory without failures.
func NewMemory() *Memory {
	return &Memory{Restarts: map[string]Backoff{}, Pulls: map[string]PullFailure{}, Starts: map[string]StartFailure{}, Unhealthy: map[string]string{}}
}

// Rejection ends a pod, although its containers could run.
type Rejection struct {
	Reason, Message string
	// Grace replaces the pod's grace period, in seconds; nil keeps it.
	Grace *int64
	// Refused means that the node has not admitted the pod, and nothing of it has started.
	Refused bool
	// Disruption means that the pod gets the condition DisruptionTarget. Its message is
	// DisruptionMessage; empty means Message.
	Disruption        bool
	DisruptionMessage string
}

// PullFailure is a failure to pull an image.
type PullFailure struct {
	// Volume is the reference of the image volume that could not be pulled; empty means the image of
	// the container.
	Volume  string
	Image   string
	Backoff Backoff
	Failed  time.Time
	Reason  string
	Message string
}

// Reference returns the reference of the image.
func (f PullFailure) Reference() string {
	if f.Volume != "" {
		return f.Volume
	}
	return f.Image
}

// StartFailure is a failure to create or start a container.
type StartFailure struct {
	At time.Time
	// Sandbox is the sandbox of the attempt. In another sandbox, the container is started without
	// delay.
	Sandbox string
	Reason  string
	Message string
}

// IsSidecar reports whether an init container keeps running beside the main containers.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Fingerprint hashes the mutable part of a container spec, its image. A change restarts the
// container.
func Fingerprint(c *corev1.Container) string {
	h := fnv.New32a()
	// Strings can always be encoded.
	text, _ := json.Marshal([]string{c.Name, c.Image})
	h.Write(text)
	return fmt.Sprintf("%x", h.Sum32())
}
