// Package volumebinding schedules pods that use persistent volumes: the VolumeBinding plugin of
// Kubernetes (https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode).
//
//	volumes, err := volumebinding.New(volumebinding.Config{Claims: claims, Volumes: volumes, ...})
//	config := schedule.Config{
//		Predicates: append([]schedule.Predicate{volumes}, predicates.Default()...),
//		Sources:    volumes.Sources(),
//		...
//	}
//
// A pod whose claims are bound fits the nodes that reach its volumes. A pod with a claim that a
// controller must bind first waits for it. For a claim whose class waits for a consumer, the predicate
// looks for a free volume that the node reaches, and [Binder.PreBind] gives it to the claim before the
// pod is bound; the controller of claims then completes the binding. Two pods that want the same
// volume at the same time may both be placed: one of them fails to bind and is scheduled again.
//
// Package volumes has the other predicates about volumes.
//
// Not included: making volumes for the chosen node, and the capacity of storage. A pod whose claim
// waits for a consumer stays pending while no free volume suits it.
package volumebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Config configures a Binder. All fields but Timeout are required.
type Config struct {
	Nodes   localcache.Reader[*corev1.Node]
	Claims  localcache.ReadSubscriber[*corev1.PersistentVolumeClaim]
	Volumes localcache.ReadSubscriber[*corev1.PersistentVolume]
	Classes localcache.ReadSubscriber[*storagev1.StorageClass]
	// Update writes a volume, unless it has changed since it was read.
	Update func(ctx context.Context, v *corev1.PersistentVolume) (*corev1.PersistentVolume, error)
	// Timeout bounds how long PreBind waits until claims are bound. Zero means 10 minutes, as in
	// Kubernetes.
	Timeout time.Duration
}

// Binder is a [schedule.Predicate] and, as a [schedule.PreBinder], binds volumes.
type Binder struct {
	config Config

	mu sync.Mutex // guards reserved
	// reserved holds the volumes that are being given to a claim, by name.
	reserved map[string]bool
}

// New returns a Binder.
func New(c Config) (*Binder, error) {
	if c.Nodes == nil || c.Claims == nil || c.Volumes == nil || c.Classes == nil || c.Update == nil {
		return nil, errors.New("volumebinding: Nodes, Claims, Volumes, Classes and Update must be set")
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	return &Binder{config: c, reserved: make(map[string]bool)}, nil
}

// Sources returns the sources of the events that wake pods.
func (b *Binder) Sources() []schedule.Source {
	return []schedule.Source{schedule.Changes(b.config.Claims), schedule.Changes(b.config.Volumes), schedule.Changes(b.config.Classes)}
}

// Name implements [schedule.Predicate].
func (*Binder) Name() string { return "VolumeBinding" }

// Filter implements [schedule.Predicate]. It says what holds for all nodes.
func (b *Binder) Filter(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	if check := b.Compile(p); check != nil {
		return check(n)
	}
	return schedule.Fits
}

// Compile implements [schedule.Compiler]: it refuses all nodes while a claim can be used on none. The check
// reads the caches each time, because it is also called after they have changed.
func (b *Binder) Compile(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
	if !hasClaims(p.Pod) {
		return nil
	}
	return func(*schedule.NodeInfo) schedule.Verdict {
		if _, refusal := b.claimsOf(p.Pod); refusal != "" {
			return schedule.RefuseAll(refusal)
		}
		return schedule.Fits
	}
}

// Prepare implements [schedule.Preparer]: it refuses nodes that do not reach the volumes.
func (b *Binder) Prepare(p *schedule.PodInfo, _ schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	if !hasClaims(p.Pod) {
		return nil
	}
	claims, refusal := b.claimsOf(p.Pod)
	return func(n *schedule.NodeInfo) schedule.Verdict {
		if refusal != "" {
			return schedule.RefuseAll(refusal)
		}
		return b.judge(claims, n.Node)
	}
}

func hasClaims(pod *corev1.Pod) bool {
	for range volumeclaim.Uses(pod) {
		return true
	}
	return false
}

// Wakes implements [schedule.Waker].
func (*Binder) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	if old, claim, ok := schedule.Changed[*corev1.PersistentVolumeClaim](e); ok {
		claim = cmp.Or(claim, old)
		for u := range volumeclaim.Uses(p.Pod) {
			if claim.Namespace == p.Pod.Namespace && claim.Name == u.Claim {
				return true
			}
		}
		return false
	}
	if old, node, ok := schedule.Changed[*corev1.Node](e); ok {
		return node != nil && (old == nil || !maps.Equal(old.Labels, node.Labels))
	}
	_, _, volume := schedule.Changed[*corev1.PersistentVolume](e)
	_, _, class := schedule.Changed[*storagev1.StorageClass](e)
	return volume || class
}

// claims are the claims of a pod.
type claims struct {
	// bound have a volume. delayed get one when the pod is scheduled, the smallest first.
	bound, delayed []*corev1.PersistentVolumeClaim
}

// claimsOf returns the claims of a pod, or why it cannot be scheduled to any node.
func (b *Binder) claimsOf(pod *corev1.Pod) (out claims, refusal string) {
	immediate := false
	for u := range volumeclaim.Uses(pod) {
		claim, ok := b.config.Claims.Get(localcache.Key(pod.Namespace, u.Claim))
		switch {
		case !ok && u.Ephemeral:
			return out, fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", u.Claim)
		case !ok:
			return out, fmt.Sprintf("persistentvolumeclaim %q not found", u.Claim)
		case claim.Status.Phase == corev1.ClaimLost:
			return out, fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", claim.Name, claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			return out, fmt.Sprintf("persistentvolumeclaim %q is being deleted", claim.Name)
		}
		if u.Ephemeral {
			if err := volumeclaim.CheckOwner(pod, claim); err != nil {
				return out, err.Error()
			}
		}
		switch class, _ := b.config.Classes.Get(volumeclaim.Class(claim)); {
		case volumeclaim.IsBound(claim):
			out.bound = append(out.bound, claim)
		case claim.Spec.VolumeName == "" && volumeclaim.Waits(class):
			if !slices.Contains(out.delayed, claim) {
				out.delayed = append(out.delayed, claim)
			}
		default:
			immediate = true
		}
	}
	if immediate {
		return out, "pod has unbound immediate PersistentVolumeClaims"
	}
	slices.SortStableFunc(out.delayed, func(x, y *corev1.PersistentVolumeClaim) int {
		p, q := x.Spec.Resources.Requests[corev1.ResourceStorage], y.Spec.Resources.Requests[corev1.ResourceStorage]
		return p.Cmp(q)
	})
	return out, ""
}

const (
	missing     = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	unreachable = "node(s) didn't match PersistentVolume's node affinity"
	unavailable = "node(s) didn't find available persistent volumes to bind"
)

// judge says whether a node reaches the volumes of claims. Like the kube-scheduler, it names the first claim
// with a volume that it cannot have, and whether it lacks volumes for the claims without one.
func (b *Binder) judge(c claims, node *corev1.Node) schedule.Verdict {
	var reasons []string
	bound := b.checkBound(c.bound, node)
	if bound == unreachable {
		reasons = append(reasons, unreachable)
	}
	b.mu.Lock()
	if len(b.match(c.delayed, node)) < len(c.delayed) {
		reasons = append(reasons, unavailable)
	}
	b.mu.Unlock()
	if bound == missing {
		reasons = append(reasons, missing)
	}
	return schedule.RefuseAlways(reasons...)
}

// checkBound returns why a node does not reach the volume of the first claim that it does not, or "".
func (b *Binder) checkBound(bound []*corev1.PersistentVolumeClaim, node *corev1.Node) string {
	for _, claim := range bound {
		v, ok := b.config.Volumes.Get(claim.Spec.VolumeName)
		switch {
		case !ok:
			return missing
		case volumeclaim.FitsNode(v, node.Labels) != nil:
			return unreachable
		}
	}
	return ""
}

// match returns a free volume that a node reaches for each claim; it stops at the first without one.
// It must be called with b.mu held.
func (b *Binder) match(delayed []*corev1.PersistentVolumeClaim, node *corev1.Node) (chosen []*corev1.PersistentVolume) {
	labels := node.Labels
	if labels == nil {
		labels = map[string]string{} // nil would mean any node
	}
	search := volumeclaim.Search{Node: labels, Taken: func(name string) bool {
		return b.reserved[name] || slices.ContainsFunc(chosen, func(v *corev1.PersistentVolume) bool { return v.Name == name })
	}}
	for _, claim := range delayed {
		v, err := search.Find(claim, b.config.Volumes.All())
		if v == nil || err != nil {
			break
		}
		chosen = append(chosen, v)
	}
	return chosen
}
