package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/planekit/planekit/kubelet/probe"
)

// podState is the runtime's state of one pod.
type podState struct {
	// sandboxes and containers are newest first: by attempt, then by creation.
	sandboxes  []sandboxState
	containers []containerState
	// probes says by name what the probes of the running containers have found.
	probes map[string]probe.State
}

// health returns what the probes say about a running container. Without a word from them, it is
// started and ready unless it has probes that decide this.
func (s *podState) health(spec *corev1.Container) probe.State {
	if state, ok := s.probes[spec.Name]; ok {
		return state
	}
	return probe.State{Started: spec.StartupProbe == nil, Ready: spec.StartupProbe == nil && spec.ReadinessProbe == nil}
}

type sandboxState struct {
	id          string
	attempt     uint32
	ready       bool
	hostNetwork bool
	ips         []string
}

// containerPhase is the phase of a container in the runtime.
type containerPhase int

const (
	containerUnknown containerPhase = iota
	containerCreated
	containerRunning
	containerExited
)

type containerState struct {
	id      string
	sandbox string // the ID of its sandbox
	name    string
	attempt uint32
	// spec is the fingerprint of the container spec from which it was created.
	spec     string
	phase    containerPhase
	created  time.Time
	started  time.Time
	finished time.Time
	exitCode int32
	reason   string
	message  string
	image    string // the name for users
	imageID  string
	// recalled means that the container is in the pod's status but no longer in the runtime.
	recalled bool
}

// sandbox returns the newest sandbox if it is ready.
func (s *podState) sandbox() *sandboxState {
	if len(s.sandboxes) > 0 && s.sandboxes[0].ready {
		return &s.sandboxes[0]
	}
	return nil
}

// latest returns the newest container called name in any sandbox; nil if there is none.
func (s *podState) latest(name string) *containerState {
	for i := range s.containers {
		if s.containers[i].name == name {
			return &s.containers[i]
		}
	}
	return nil
}

// latestIn is latest for one sandbox.
func (s *podState) latestIn(sandbox, name string) *containerState {
	for i := range s.containers {
		if c := &s.containers[i]; c.name == name && c.sandbox == sandbox {
			return c
		}
	}
	return nil
}

// running counts the containers that run or may run.
func (s *podState) running() int {
	n := 0
	for _, c := range s.containers {
		if c.phase == containerRunning || c.phase == containerUnknown {
			n++
		}
	}
	return n
}

// memory is the state of a pod that cannot be read from the runtime. Losing it only makes backoffs
// start over.
type memory struct {
	// restarts is by container name.
	restarts map[string]backoff
	// pulls is by container name.
	pulls map[string]pullFailure
	// starts holds the failures to create or start containers, by name.
	starts map[string]startFailure
	// unhealthy holds by name the IDs of the containers that were stopped because a probe failed.
	unhealthy map[string]string
	// sandboxAttempt is the lowest attempt number that may be free.
	sandboxAttempt uint32
	// sandboxFailed is when creating a sandbox last failed; zero if it did not.
	sandboxFailed time.Time
}

func newMemory() *memory {
	return &memory{restarts: map[string]backoff{}, pulls: map[string]pullFailure{}, starts: map[string]startFailure{}, unhealthy: map[string]string{}}
}

// pullFailure is a failure to pull an image.
type pullFailure struct {
	image   string
	backoff backoff
	failed  time.Time
	reason  string
	message string
}

// startFailure is a failure to create or start a container.
type startFailure struct {
	at time.Time
	// sandbox is the sandbox of the attempt. In another sandbox, the container is started without
	// delay.
	sandbox string
	reason  string
	message string
}

// podUID is a short name for signatures.
type podUID = types.UID

// sidecar reports whether an init container keeps running beside the main containers.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
