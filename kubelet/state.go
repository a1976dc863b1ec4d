package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podState is what the runtime has of one pod.
type podState struct {
	// sandboxes and containers are newest first: by attempt, then by creation.
	sandboxes  []sandboxState
	containers []containerState
}

type sandboxState struct {
	id          string
	attempt     uint32
	ready       bool
	hostNetwork bool
	ips         []string
}

// phase of a container in the runtime.
type containerPhase int

const (
	containerUnknown containerPhase = iota
	containerCreated
	containerRunning
	containerExited
)

type containerState struct {
	id      string
	sandbox string // the id of the sandbox it belongs to
	name    string
	attempt uint32
	// spec is the fingerprint of the container spec it was made from.
	spec     string
	phase    containerPhase
	created  time.Time
	started  time.Time
	finished time.Time
	exitCode int32
	reason   string
	message  string
	image    string // as people call it
	imageID  string
	// recalled: the pod's status tells of it, the runtime has it no more.
	recalled bool
}

// sandbox returns the newest sandbox if it is ready.
func (s *podState) sandbox() *sandboxState {
	if len(s.sandboxes) > 0 && s.sandboxes[0].ready {
		return &s.sandboxes[0]
	}
	return nil
}

// latest returns the newest container called name, in any sandbox; nil if there
// is none.
func (s *podState) latest(name string) *containerState {
	for i := range s.containers {
		if s.containers[i].name == name {
			return &s.containers[i]
		}
	}
	return nil
}

// latestIn is like latest, in one sandbox.
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

// memory is what is remembered of a pod between two looks at it and cannot be
// read from the runtime. Losing it makes back-offs start over and nothing else.
type memory struct {
	// restarts is by container name.
	restarts map[string]backoff
	// pulls is by container name.
	pulls map[string]pullFailure
	// starts says why a container could not be created or started, by name.
	starts map[string]startFailure
	// sandboxAttempt is the lowest attempt not known to be taken.
	sandboxAttempt uint32
	// sandboxFailed is when creating a sandbox last failed; zero if it did not.
	sandboxFailed time.Time
}

func newMemory() *memory {
	return &memory{restarts: map[string]backoff{}, pulls: map[string]pullFailure{}, starts: map[string]startFailure{}}
}

// pullFailure is an image that could not be had.
type pullFailure struct {
	image   string
	backoff backoff
	failed  time.Time
	reason  string
	message string
}

// startFailure is a container that could not be created or started.
type startFailure struct {
	at time.Time
	// sandbox is where it was to run. In another it is tried at once.
	sandbox string
	reason  string
	message string
}

// podUID shortens signatures.
type podUID = types.UID

// sidecar says that an init container keeps running beside the main ones.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
