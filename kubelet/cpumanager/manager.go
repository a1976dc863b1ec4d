// Package cpumanager gives CPUs to containers for their exclusive use, as the CPU manager of the
// Kubernetes kubelet does. No CPU belongs to two pods, and a reserved CPU belongs to none.
//
//	m, err := cpumanager.New(cpumanager.Config{
//		Policy: cpumanager.PolicyStatic, Reserved: "0", File: "/var/lib/kubelet/cpu_manager_state",
//		Runtime: runtime, Active: isActive,
//	})
//	if err != nil { ... }
//	if err := m.Start(); err != nil { ... }
//	err = m.Admit(pod)           // before the pod starts
//	cpus := m.For(pod.UID, "app") // when a container is created
//
// # Model
//
// With the policy static, each container of a Guaranteed pod that requests an integer number of CPUs owns
// that many CPUs from Admit until Release. All other containers share the CPUs that no container owns.
// A pure function decides from the topology of the machine and the assignments so far. Run updates the
// running containers whenever an assignment changes, and every 10 seconds. Until then, a container may
// still run on a CPU that another one has got.
//
// The assignments are in the state file, whose format and checksum are those of Kubernetes. Admit returns
// only after the file is written.
//
// # Failure
//
// Start returns an error if the state file is broken, of another policy, or of other CPUs; the node
// must be drained and the file deleted. A pod for which there are not enough CPUs gets none. A file that
// cannot be written makes Admit fail; Release keeps its effect, and Run retries the write.
//
// # Not included
//
// The topology manager, and the options distribute-cpus-across-numa, prefer-align-cpus-by-uncorecache
// and those in alpha. Pods with resources of the pod as a whole share CPUs. With strict-cpu-reservation,
// containers that own nothing are not confined while other containers own all CPUs.
package cpumanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/wholefile"
	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The policies.
const (
	PolicyNone   = "none"
	PolicyStatic = "static"
)

// DefaultReconcilePeriod is the interval at which Run updates containers without a change.
const DefaultReconcilePeriod = 10 * time.Second

// Config describes a Manager.
type Config struct {
	// Policy is PolicyNone or PolicyStatic. Empty means PolicyNone, with which all containers may use all
	// CPUs and the fields below but File have no effect.
	Policy string
	// Options are options of the static policy, such as FullPCPUsOnly: "true".
	Options map[string]string
	// Reserved lists the CPUs that no container owns, such as "0-1". If it is empty, these are the lowest
	// CPUs, as many as ReservedMilliCPU, rounded up. The static policy needs one of both.
	Reserved         string
	ReservedMilliCPU int64
	// ReconcilePeriod is the interval at which Run updates containers; zero means DefaultReconcilePeriod.
	ReconcilePeriod time.Duration
	// File is the path of the state file.
	File string
	// Devices is the directory /sys/devices/system; nil means that of the machine.
	Devices fs.FS
	// Runtime updates containers. Labels select those of this node.
	Runtime Runtime
	Labels  map[string]string
	// Active reports whether a pod may still have containers. The CPUs of other pods are released.
	Active func(uid types.UID) bool

	Log logr.Logger
}

// Manager assigns CPUs. Its methods are safe for concurrent use.
type Manager struct {
	config  Config
	options options
	list    Set
	changed chan struct{} // of size 1: containers must be updated now

	mu sync.Mutex
	// mu guards the fields below.
	static  *static // nil with PolicyNone, and before Start
	state   assignments
	unsaved bool // the file does not have the state
}

// New returns a manager. It does not read any file.
func New(c Config) (*Manager, error) {
	m := &Manager{config: c, changed: make(chan struct{}, 1)}
	if c.Policy == "" {
		m.config.Policy = PolicyNone
	}
	if c.ReconcilePeriod == 0 {
		m.config.ReconcilePeriod = DefaultReconcilePeriod
	}
	if c.Devices == nil {
		m.config.Devices = os.DirFS("/sys/devices/system")
	}
	var err error
	switch {
	case m.config.Policy != PolicyNone && m.config.Policy != PolicyStatic:
		return nil, fmt.Errorf("cpumanager: unknown policy: %q", c.Policy)
	case c.ReconcilePeriod < 0:
		return nil, fmt.Errorf("cpumanager: the reconcile period %v is negative", c.ReconcilePeriod)
	case !filepath.IsAbs(c.File):
		return nil, fmt.Errorf("cpumanager: the state file %q is not an absolute path", c.File)
	}
	if m.options, err = parseOptions(m.config.Policy, c.Options); err != nil {
		return nil, fmt.Errorf("cpumanager: %w", err)
	}
	if m.list, err = ParseSet(c.Reserved); err != nil {
		return nil, fmt.Errorf("cpumanager: reserved CPUs: %w", err)
	}
	if m.config.Policy == PolicyNone {
		return m, nil
	}
	switch {
	case c.ReservedMilliCPU < 0:
		return nil, fmt.Errorf("cpumanager: %d reserved milli CPUs are negative", c.ReservedMilliCPU)
	case m.list.Len() == 0 && c.ReservedMilliCPU == 0:
		return nil, errors.New("cpumanager: the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")
	case c.Runtime == nil:
		return nil, errors.New("cpumanager: the static policy needs a runtime that updates the resources of containers")
	case c.Active == nil:
		return nil, errors.New("cpumanager: Active is missing")
	}
	return m, nil
}

// Start reads the topology and the state file. It must be called once, before the other methods.
func (m *Manager) Start() error {
	data, err := readState(m.config.File)
	if err != nil {
		return m.unusable(err)
	}
	if m.config.Policy == PolicyNone {
		if data != nil {
			if _, err := decode(PolicyNone, data); err != nil {
				return m.unusable(err)
			}
		}
		return nil
	}
	topology, err := ReadTopology(m.config.Devices)
	if err != nil {
		return fmt.Errorf("cpumanager: read the topology of the CPUs: %w", err)
	}
	policy, err := newStatic(topology, m.options, m.list, int((m.config.ReservedMilliCPU+999)/1000))
	if err != nil {
		return fmt.Errorf("cpumanager: %w", err)
	}
	state := assignments{shared: policy.all}
	if data != nil {
		if state, err = decode(PolicyStatic, data); err != nil {
			return m.unusable(err)
		}
		if state.shared.Len() == 0 && len(state.pods) == 0 {
			state.shared = policy.all // written before the topology was known
		}
		if err := policy.check(state); err != nil {
			return m.unusable(err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.static, m.state = policy, state
	if data == nil {
		return m.save(state)
	}
	return nil
}

func (m *Manager) unusable(err error) error {
	return fmt.Errorf("cpumanager: could not restore state from checkpoint: %w, please drain this node and delete the CPU manager checkpoint file %q before restarting Kubelet", err, m.config.File)
}

// save writes state to the file and makes it the current one. m.mu must be held.
func (m *Manager) save(state assignments) error {
	data, err := encode(m.config.Policy, state)
	if err == nil {
		err = wholefile.Write(m.config.File, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the state of the CPU manager: %w", err)
	}
	m.state, m.unsaved = state, false
	return nil
}

// Admit assigns CPUs to the containers of a pod that have none yet, to all or to none. Refusal
// translates its error. A pod that was admitted before keeps its CPUs.
func (m *Manager) Admit(pod *corev1.Pod) error {
	m.releaseInactive()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.static == nil {
		return nil
	}
	next, err := m.static.admit(m.state, pod)
	if err != nil || next.shared.Equal(m.state.shared) && len(next.pods[string(pod.UID)]) == len(m.state.pods[string(pod.UID)]) {
		return err
	}
	if err := m.save(next); err != nil {
		return err
	}
	m.wake()
	return nil
}

// Release makes the CPUs of a pod available again. The pod must have no running container.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.pods[string(uid)] == nil {
		return
	}
	next := m.static.release(m.state, string(uid))
	if err := m.save(next); err != nil {
		m.config.Log.Error(err, "release CPUs", "uid", uid)
		m.state, m.unsaved = next, true
	}
	m.wake()
}

// releaseInactive releases the CPUs of pods that are not active.
func (m *Manager) releaseInactive() {
	m.mu.Lock()
	uids := slices.Collect(maps.Keys(m.state.pods))
	m.mu.Unlock()
	for _, uid := range uids {
		if !m.config.Active(types.UID(uid)) {
			m.Release(types.UID(uid))
		}
	}
}

// wake requests an update of the containers.
func (m *Manager) wake() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// For returns the CPUs on which a container runs: its own or the shared ones. It is empty with
// PolicyNone.
func (m *Manager) For(uid types.UID, container string) Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cpus, ok := m.state.pods[string(uid)][container]; ok {
		return cpus
	}
	return m.state.shared
}

// Exclusive returns the CPUs that a container owns.
func (m *Manager) Exclusive(uid types.UID, container string) Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.pods[string(uid)][container]
}

// RefuseResize returns why the CPUs of a pod cannot be resized in place; empty means that they can.
func (m *Manager) RefuseResize(pod *corev1.Pod) string {
	if m.config.Policy != PolicyStatic || qos.Class(pod) != corev1.PodQOSGuaranteed {
		return ""
	}
	return fmt.Sprintf("Resize is infeasible for Guaranteed Pods alongside CPU Manager policy %q", PolicyStatic)
}

// Run updates running containers until ctx is done.
func (m *Manager) Run(ctx context.Context) {
	if m.config.Policy == PolicyNone {
		return
	}
	tick := time.NewTicker(m.config.ReconcilePeriod)
	defer tick.Stop()
	r := reconciler{manager: m, applied: map[string]string{}}
	for {
		m.releaseInactive()
		m.retrySave()
		if err := r.reconcile(ctx); err != nil && ctx.Err() == nil {
			m.config.Log.Error(err, "update the CPUs of containers")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.changed:
		}
	}
}

// retrySave writes a state that could not be written before.
func (m *Manager) retrySave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.unsaved {
		return
	}
	if err := m.save(m.state); err != nil {
		m.config.Log.Error(err, "save the CPUs of containers")
	}
}
