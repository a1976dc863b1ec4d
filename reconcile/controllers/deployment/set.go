package deployment

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/rand"
)

// These annotations are also used by kubectl and other controllers.
const (
	revisionAnnotation        = "deployment.kubernetes.io/revision"
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	desiredAnnotation         = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation             = "deployment.kubernetes.io/max-replicas"
)

// notInherited are annotations of a Deployment that its ReplicaSets do not get.
var notInherited = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true,
	appsv1.DeprecatedRollbackTo:        true,
	revisionAnnotation:                 true,
	revisionHistoryAnnotation:          true,
	desiredAnnotation:                  true,
	maxAnnotation:                      true,
}

// sameTemplate compares templates without the hash label.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	x, y := *a, *b
	x.Labels, y.Labels = withoutHash(x.Labels), withoutHash(y.Labels)
	return equality.Semantic.DeepEqual(x, y)
}

func withoutHash(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	delete(labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return labels
}

func setRevision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// revision returns the number of the current template: its present one, or one more than all
// others.
func (r *rollout) revision() string {
	var highest int64
	for _, rs := range r.old {
		highest = max(highest, setRevision(rs))
	}
	if r.current != nil {
		if have := setRevision(r.current); have > highest {
			return strconv.FormatInt(have, 10)
		}
	}
	return strconv.FormatInt(highest+1, 10)
}

// updates lists the ReplicaSets whose size or annotations change.
func (r *rollout) updates(revision string) (updates []setUpdate) {
	all := r.old
	if r.current != nil {
		all = append([]*appsv1.ReplicaSet{r.current}, all...)
	}
	for _, rs := range all {
		size, minReady := r.size[rs], rs.Spec.MinReadySeconds
		annotations := maps.Clone(rs.Annotations)
		if annotations == nil {
			annotations = make(map[string]string)
		}
		if rs == r.current {
			minReady = r.d.Spec.MinReadySeconds
			r.inherit(annotations, revision)
		}
		// Change it only with the size, unless the size is right: a ReplicaSet with the old number
		// has not been scaled.
		resized := size != optional.Value(rs.Spec.Replicas, 1)
		if resized || r.scaled[rs] {
			r.annotateSize(annotations)
		}
		if !resized && minReady == rs.Spec.MinReadySeconds && maps.Equal(annotations, rs.Annotations) {
			continue
		}
		to := rs.DeepCopy()
		to.Spec.Replicas, to.Spec.MinReadySeconds, to.Annotations = &size, minReady, annotations
		updates = append(updates, setUpdate{rs, to})
	}
	return updates
}

func (r *rollout) annotateSize(annotations map[string]string) {
	surge, _ := bounds(r.d)
	annotations[desiredAnnotation] = strconv.Itoa(int(r.want()))
	annotations[maxAnnotation] = strconv.Itoa(int(r.want() + surge))
}

// maxRevisionHistory bounds the former revisions that a ReplicaSet remembers, in bytes.
const maxRevisionHistory = 2000

// inherit updates the annotations of the current ReplicaSet.
func (r *rollout) inherit(annotations map[string]string, revision string) {
	for k, v := range r.d.Annotations {
		if !notInherited[k] {
			annotations[k] = v
		}
	}
	had := annotations[revisionAnnotation]
	if had == revision {
		return
	}
	annotations[revisionAnnotation] = revision
	if had == "" {
		return
	}
	history := strings.TrimPrefix(annotations[revisionHistoryAnnotation]+","+had, ",")
	for len(history) > maxRevisionHistory {
		_, history, _ = strings.Cut(history, ",") // the oldest go
	}
	annotations[revisionHistoryAnnotation] = history
}

// maxSetName is the longest name that the API accepts.
const maxSetName = 253

// newSet returns the ReplicaSet of the present template.
func (r *rollout) newSet(revision string, size int32) *appsv1.ReplicaSet {
	d := r.d
	hash := templateHash(&d.Spec.Template, d.Status.CollisionCount)
	withHash := func(labels map[string]string) map[string]string {
		labels = maps.Clone(labels)
		if labels == nil {
			labels = make(map[string]string)
		}
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
		return labels
	}
	template := *d.Spec.Template.DeepCopy()
	template.Labels = withHash(template.Labels)
	selector := &metav1.LabelSelector{}
	if d.Spec.Selector != nil {
		d.Spec.Selector.DeepCopyInto(selector)
	}
	selector.MatchLabels = withHash(selector.MatchLabels)
	annotations := make(map[string]string)
	r.annotateSize(annotations)
	r.inherit(annotations, revision)
	return &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: replicaSetKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name:            d.Name[:min(len(d.Name), maxSetName-len("-")-len(hash))] + "-" + hash,
			Namespace:       d.Namespace,
			Labels:          template.Labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        &size,
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}
}

// templateHash returns the hash that Kubernetes computes, FNV-1a over a printed form of the
// template, so that names stay when another controller takes over.
func templateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	//lint:ignore SA1019 its successor gives the same text from a module that we do not depend on
	fmt.Fprintf(h, "%v", dump.ForHash(*template))
	if collisions != nil {
		var bytes [8]byte
		binary.LittleEndian.PutUint32(bytes[:], uint32(*collisions))
		h.Write(bytes[:])
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
