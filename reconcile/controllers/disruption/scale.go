package disruption

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A ScaleReader reads the scale subresource of controllers of any kind.
type ScaleReader interface {
	// ReadScale returns the scale of the object in namespace that controller
	// refers to. It fails with NotFound if there is no such object, and with
	// another error if its kind has no scale.
	ReadScale(ctx context.Context, namespace string, controller *metav1.OwnerReference) (*autoscalingv1.Scale, error)
}

// ScaleReaderFunc is a function that is a [ScaleReader].
type ScaleReaderFunc func(ctx context.Context, namespace string, controller *metav1.OwnerReference) (*autoscalingv1.Scale, error)

// ReadScale calls f.
func (f ScaleReaderFunc) ReadScale(ctx context.Context, namespace string, controller *metav1.OwnerReference) (*autoscalingv1.Scale, error) {
	return f(ctx, namespace, controller)
}

// podScale holds how many pods a controller requests.
type podScale struct {
	controller types.UID
	replicas   int32
}

// scale returns how many pods the controllers of pods request together, and whether there are pods
// without a controller.
func (c *Controller) scale(ctx context.Context, pods []*corev1.Pod) (total int32, unmanaged bool, err error) {
	asked, counted := map[types.UID]bool{}, map[types.UID]bool{}
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil {
			unmanaged = true
			continue
		}
		if asked[owner.UID] {
			continue
		}
		asked[owner.UID] = true
		s, found, err := c.scaleOf(ctx, pod.Namespace, owner)
		switch {
		case err != nil:
			return 0, false, err
		case !found:
			return 0, false, fmt.Errorf("found no controllers for pod %q", pod.Name)
		case !counted[s.controller]: // several ReplicaSets have one Deployment
			counted[s.controller] = true
			total += s.replicas
		}
	}
	return total, unmanaged, nil
}

// scaleOf returns the scale of the controller that owner refers to.
func (c *Controller) scaleOf(ctx context.Context, namespace string, ref *metav1.OwnerReference) (podScale, bool, error) {
	at := localcache.Key(namespace, ref.Name)
	switch {
	case owner.IsKind(ref, appsv1.GroupName, "ReplicaSet"), owner.IsKind(ref, "extensions", "ReplicaSet"):
		rs, ok := c.config.ReplicaSets.Get(at)
		if !ok || rs.UID != ref.UID {
			return podScale{}, false, nil
		}
		return c.replicaSetScale(rs), true, nil
	case owner.IsKind(ref, "", replicationControllerKind.Kind):
		rc, ok := c.config.ReplicationControllers.Get(at)
		if !ok || rc.UID != ref.UID {
			return podScale{}, false, nil
		}
		return podScale{rc.UID, optional.Value(rc.Spec.Replicas, 1)}, true, nil
	case c.config.Scales == nil:
		return podScale{}, false, nil
	}
	scale, err := c.config.Scales.ReadScale(ctx, namespace, ref)
	if apierrors.IsNotFound(err) || err == nil && scale.UID != ref.UID {
		return podScale{}, false, nil
	}
	if err != nil {
		return podScale{}, false, err
	}
	return podScale{scale.UID, scale.Spec.Replicas}, true, nil
}

// replicaSetScale returns the scale of the Deployment that rs belongs to, or of rs itself.
func (c *Controller) replicaSetScale(rs *appsv1.ReplicaSet) podScale {
	if controlledByDeployment(rs) {
		owner := metav1.GetControllerOfNoCopy(rs)
		if d, ok := c.config.Deployments.Get(localcache.Key(rs.Namespace, owner.Name)); ok && d.UID == owner.UID {
			return podScale{d.UID, optional.Value(d.Spec.Replicas, 1)}
		}
	}
	return podScale{rs.UID, optional.Value(rs.Spec.Replicas, 1)}
}

func controlledByDeployment(rs *appsv1.ReplicaSet) bool {
	ref := metav1.GetControllerOfNoCopy(rs)
	return ref != nil && (owner.IsKind(ref, appsv1.GroupName, "Deployment") || owner.IsKind(ref, "extensions", "Deployment"))
}
