package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/podreference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

func (p *Plugin) pod(ctx context.Context, r *admission.Request, node string) error {
	switch r.Subresource {
	case "":
		switch r.Operation {
		case admission.Create:
			return p.newPod(ctx, r, node)
		case admission.Delete:
			return p.deletePod(ctx, r, node)
		}
		return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", r.Operation, node)
	case "status":
		return podStatus(r, node)
	case "eviction":
		return p.evict(ctx, r, node)
	}
	return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", r.Subresource)
}

// newPod allows a node to create mirror pods of its static pods, without references to other
// objects.
func (p *Plugin) newPod(ctx context.Context, r *admission.Request, node string) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.Object)
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	}
	if pod.Spec.NodeName != node {
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", node)
	}
	if err := p.owned(ctx, pod, node); err != nil {
		return err
	}
	reference, err := podreference.Find(pod)
	if err != nil {
		return fmt.Errorf("error checking mirror pod for API references: %w", err)
	}
	if reference != "" {
		return fmt.Errorf("node %q can not create pods that reference %s", node, reference)
	}
	return nil
}

// owned checks that the pod is deleted with its node.
func (p *Plugin) owned(ctx context.Context, pod *corev1.Pod, node string) error {
	if len(pod.OwnerReferences) > 1 {
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", node)
	}
	if len(pod.OwnerReferences) == 0 {
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	}
	owner := pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	case owner.Controller == nil || !*owner.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	stored, err := p.storedNode(ctx, node, owner.UID)
	if err != nil {
		return err
	}
	if owner.UID != stored.UID {
		return fmt.Errorf("node %s UID mismatch: expected %s got %s", node, owner.UID, stored.UID)
	}
	return nil
}

func (p *Plugin) deletePod(ctx context.Context, r *admission.Request, node string) error {
	pod, ok := r.OldObject.(*corev1.Pod)
	if !ok {
		var err error
		if pod, err = p.storedPod(ctx, r.Namespace, r.Name, node, ""); err != nil {
			return err
		}
	}
	if pod.Spec.NodeName != node {
		return fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", node)
	}
	return nil
}

func podStatus(r *admission.Request, node string) error {
	if r.Operation != admission.Update {
		return fmt.Errorf("unexpected operation %q", r.Operation)
	}
	pod, old, err := objects[*corev1.Pod](r)
	if err != nil {
		return err
	}
	switch {
	case old.Spec.NodeName != node:
		return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node)
	case !equality.Semantic.DeepEqual(pod.Labels, old.Labels):
		return fmt.Errorf("node %q cannot update labels through pod status", node)
	case !slices.EqualFunc(pod.Status.ResourceClaimStatuses, old.Status.ResourceClaimStatuses, sameClaim):
		return fmt.Errorf("node %q cannot update resource claim statues", node) // Kubernetes' spelling
	case !equality.Semantic.DeepEqual(pod.Status.ExtendedResourceClaimStatus, old.Status.ExtendedResourceClaimStatus):
		return fmt.Errorf("node %q cannot update extended resource claim status", node)
	}
	return nil
}

func sameClaim(a, b corev1.PodResourceClaimStatus) bool {
	return a.Name == b.Name && equality.Semantic.DeepEqual(a.ResourceClaimName, b.ResourceClaimName)
}

func (p *Plugin) evict(ctx context.Context, r *admission.Request, node string) error {
	if r.Operation != admission.Create {
		return fmt.Errorf("unexpected operation %s", r.Operation)
	}
	name := r.Name
	if name == "" {
		name = called(r)
	}
	if name == "" {
		return errors.New("could not determine pod from request data")
	}
	pod, err := p.storedPod(ctx, r.Namespace, name, node, "")
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != node {
		return fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", node)
	}
	return nil
}
