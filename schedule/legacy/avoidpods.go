package legacy

import (
	"encoding/json"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PreferAvoidPodsWeight is the weight of [PreferAvoidPods] in the default profile of v1.18. With it, a node
// that avoids a pod is chosen only if no other node fits.
const PreferAvoidPodsWeight = 10000

// PreferAvoidPods gives the score 0 to nodes whose annotation scheduler.alpha.kubernetes.io/preferAvoidPods
// names the ReplicationController or ReplicaSet of a pod, and the highest score to all others. An annotation
// that cannot be read names none.
func PreferAvoidPods() schedule.Priority {
	return schedule.PriorityFunc("NodePreferAvoidPods", func(p *schedule.PodInfo, n *schedule.NodeInfo) int64 {
		owner := metav1.GetControllerOfNoCopy(p.Pod)
		if owner == nil || owner.Kind != "ReplicationController" && owner.Kind != "ReplicaSet" {
			return schedule.MaxScore
		}
		if avoids(n.Node.Annotations[corev1.PreferAvoidPodsAnnotationKey], owner) {
			return 0
		}
		return schedule.MaxScore
	})
}

// avoids reports whether an annotation names the controller of a pod.
func avoids(annotation string, owner *metav1.OwnerReference) bool {
	var list corev1.AvoidPods
	if annotation == "" || json.Unmarshal([]byte(annotation), &list) != nil {
		return false
	}
	for _, entry := range list.PreferAvoidPods {
		if c := entry.PodSignature.PodController; c != nil && c.Kind == owner.Kind && c.UID == owner.UID {
			return true
		}
	}
	return false
}
