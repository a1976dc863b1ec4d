// Package podresize refuses to resize a pod beyond what its node has: the PodResizeValidator plugin of
// Kubernetes.
//
//	plugin, err := podresize.New(podresize.Config{Nodes: informer, Lookup: get})
//	chain := admission.Chain{Validators: []admission.Validator{plugin}}
//
// An update of pods/resize that changes the pod's generation is refused with 403 if the pod is bound
// to a node and requests more cpu or memory than the node can allocate, or if the node does not run
// Linux. The status of the refusal has the cause NodeCapacity or UnsupportedPlatform. What other pods
// on the node take does not matter here: the kubelet defers a resize until there is room.
//
// The cache of nodes may be stale: a node that it does not have is looked up. A node that does not
// exist is a refusal.
package podresize

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/usage"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "PodResizeValidator"

// Causes in the status of a refusal.
const (
	NodeCapacity        metav1.CauseType = "NodeCapacity"
	UnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// Config configures the plugin. Both fields are required.
type Config struct {
	// Nodes is the cache of nodes, by name.
	Nodes localcache.Reader[*corev1.Node]
	// Lookup reads a node from the store. Its namespace is empty. It fails with a NotFound API error if
	// there is none.
	Lookup func(ctx context.Context, namespace, name string) (*corev1.Node, error)
}

// Plugin is an [admission.Validator] of resizes.
type Plugin struct {
	config Config
}

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Nodes == nil || c.Lookup == nil {
		return nil, errors.New("podresize: Nodes and Lookup must be set")
	}
	return &Plugin{config: c}, nil
}

// Validate refuses a resize that the pod's node can never grant.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Operation != admission.Update || r.Resource.Group != corev1.GroupName || r.Resource.Resource != "pods" || r.Subresource != "resize" {
		return nil
	}
	pod, isPod := r.Object.(*corev1.Pod)
	old, wasPod := r.OldObject.(*corev1.Pod)
	if !isPod || !wasPod || pod.Spec.NodeName == "" || pod.Generation == old.Generation {
		return nil
	}
	node, ok := p.config.Nodes.Get(pod.Spec.NodeName)
	if !ok {
		var err error
		node, err = p.config.Lookup(ctx, "", pod.Spec.NodeName)
		if apierrors.IsNotFound(err) {
			return admission.Forbidden(r, fmt.Errorf("node %q not found", pod.Spec.NodeName))
		}
		if err != nil {
			return admission.Forbidden(r, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
		}
	}
	if system, ok := node.Labels[corev1.LabelOSStable]; ok && system != "linux" {
		return refused(r, UnsupportedPlatform, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, system))
	}
	if err := exceeds(pod, node.Status.Allocatable); err != nil {
		return refused(r, NodeCapacity, err)
	}
	return nil
}

// exceeds returns an error if the requests in the spec of a pod are larger than what a node has.
func exceeds(pod *corev1.Pod, allocatable corev1.ResourceList) error {
	bare := *pod
	bare.Status = corev1.PodStatus{} // what the pod has now does not count
	requests := usage.Requests(&bare)
	var lacks []string
	if want, have := requests.Cpu(), allocatable.Cpu(); want.Cmp(*have) > 0 {
		lacks = append(lacks, fmt.Sprintf("cpu, requested: %d, allocatable: %d", want.MilliValue(), have.MilliValue()))
	}
	if want, have := requests.Memory(), allocatable.Memory(); want.Cmp(*have) > 0 {
		lacks = append(lacks, fmt.Sprintf("memory, requested: %d, allocatable: %d", want.Value(), have.Value()))
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(lacks, "; "))
}

// refused returns a refusal whose status has a cause.
func refused(r *admission.Request, cause metav1.CauseType, err error) error {
	status := apierrors.NewForbidden(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}, r.Called(), err)
	status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	return status
}
