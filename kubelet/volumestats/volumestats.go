// Package volumestats measures what the volumes of pods use and have left.
//
//	meter := volumestats.New(time.Minute)
//	stats := meter.Of(ctx, pod.UID, []volumestats.Volume{{Name: "data", Path: path, Walk: true}})
//
// # Model
//
// Nothing is measured until it is asked for. An answer is then used for a period, and for ten times as
// long as its measurement took, so that measuring takes a tenth of a processor at most.
//
// # Failure
//
// A volume that cannot be measured is left out. A measurement ends after 5 seconds; one that hangs in the
// kernel, because of a file system that does not answer, is not repeated while it does, and callers get
// what is known of before.
package volumestats

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/diskusage"
	"github.com/planekit/planekit/kubelet/internal/machine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// patience bounds one measurement of the volumes of a pod.
	patience = 5 * time.Second
	// rest is for how many times the duration of its measurement an answer is used at least.
	rest = 10
)

// Volume is a volume of a pod.
type Volume struct {
	Name string
	// Path is the directory of the volume on the host.
	Path string
	// Claim is the claim of the volume; nil if it has none.
	Claim *ClaimReference
	// Walk counts the files in the volume. If it is false, the volume is a whole file system.
	Walk bool
}

// Stats holds what a volume uses and has left, as in Kubernetes' summary
// (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
type Stats struct {
	Time           metav1.Time `json:"time"`
	AvailableBytes uint64      `json:"availableBytes"`
	CapacityBytes  uint64      `json:"capacityBytes"`
	UsedBytes      uint64      `json:"usedBytes"`
	InodesFree     uint64      `json:"inodesFree"`
	Inodes         uint64      `json:"inodes"`
	InodesUsed     uint64      `json:"inodesUsed"`
	// Name is the name of the volume in the pod.
	Name string `json:"name,omitempty"`
	// Claim is the claim of the volume; nil if it has none.
	Claim *ClaimReference `json:"pvcRef,omitempty"`
}

// ClaimReference names a claim.
type ClaimReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// Meter measures volumes. It is safe for concurrent use.
type Meter struct {
	period time.Duration
	// measure is replaced by tests.
	measure func(ctx context.Context, v Volume) (Stats, error)

	mu   sync.Mutex
	pods map[types.UID]*podVolumes // guarded by mu, with all that is in it
}

// podVolumes are the last measurement of a pod, and perhaps one in progress.
type podVolumes struct {
	volumes []Volume
	stats   []Stats
	until   time.Time     // when they are measured again
	begun   time.Time     // when the measurement in progress began
	done    chan struct{} // closed at its end; nil without one
}

// New returns a meter whose answers are used for a period. It has no answers if the period is not
// positive.
func New(period time.Duration) *Meter {
	return &Meter{period: period, measure: measure, pods: map[types.UID]*podVolumes{}}
}

// Of returns the statistics of the volumes of a pod, which it measures if that is due. The caller must not
// change the result. It returns what is known when ctx is done.
func (m *Meter) Of(ctx context.Context, uid types.UID, volumes []Volume) []Stats {
	if m.period <= 0 || len(volumes) == 0 {
		return nil
	}
	m.mu.Lock()
	pod := m.pods[uid]
	if pod == nil {
		pod = &podVolumes{}
		m.pods[uid] = pod
	}
	now := time.Now()
	if due := now.After(pod.until) || !slices.EqualFunc(pod.volumes, volumes, sameVolume); due && pod.done == nil {
		pod.begun, pod.done = now, make(chan struct{})
		go m.refresh(pod, slices.Clone(volumes), pod.done)
	}
	done, left := pod.done, patience-now.Sub(pod.begun)
	m.mu.Unlock()
	if done != nil && left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return pod.stats
}

// Forget removes what is known about a pod.
func (m *Meter) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

func sameVolume(a, b Volume) bool {
	return a.Name == b.Name && a.Path == b.Path && a.Walk == b.Walk
}

// refresh measures the volumes of a pod. It ends soon after patience, unless the kernel hangs.
func (m *Meter) refresh(pod *podVolumes, volumes []Volume, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin := time.Now()
	var stats []Stats
	for _, v := range volumes {
		if s, err := m.measure(ctx, v); err == nil {
			stats = append(stats, s)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	end := time.Now()
	pod.volumes, pod.stats, pod.until = volumes, stats, end.Add(max(m.period, rest*end.Sub(begin)))
	pod.done = nil
	close(done)
}

// measure measures one volume.
func measure(ctx context.Context, v Volume) (Stats, error) {
	fs, err := machine.FileSystemOf(v.Path)
	if err != nil {
		return Stats{}, err
	}
	s := Stats{
		Time: metav1.Now(), Name: v.Name, Claim: v.Claim,
		AvailableBytes: uint64(fs.Available), CapacityBytes: uint64(fs.Capacity), UsedBytes: uint64(fs.Used),
		InodesFree: uint64(fs.InodesFree), Inodes: uint64(fs.Inodes), InodesUsed: uint64(fs.Inodes - fs.InodesFree),
	}
	if v.Walk {
		usage, err := diskusage.Of(ctx, v.Path)
		if err != nil {
			return Stats{}, err
		}
		s.UsedBytes, s.InodesUsed = uint64(usage.Bytes), uint64(usage.Inodes)
	}
	return s, nil
}
