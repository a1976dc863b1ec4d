package replicaset

import (
	"context"
	"iter"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReplicationControllerConfig configures a ReplicationController. All fields before Events are
// required.
type ReplicationControllerConfig struct {
	ReplicationControllers localcache.Cache[*corev1.ReplicationController]
	Pods                   localcache.Cache[*corev1.Pod]
	// PodsByController is an index of Pods by [owner.ByController].
	PodsByController localcache.Index[types.UID, *corev1.Pod]
	// Writer writes the status of ReplicationControllers.
	Writer    controllers.StatusUpdater[*corev1.ReplicationController]
	PodWriter interface {
		owner.PodWriter
		controllers.Patcher[*corev1.Pod]
	}
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of ReplicationControllers processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// ReplicationController keeps the number of pods that each ReplicationController requests. It works
// like [Controller], which sees each as a ReplicaSet.
type ReplicationController struct{ *reconcile.Controller[string] }

var replicationControllerKind = corev1.SchemeGroupVersion.WithKind("ReplicationController")

// NewReplicationController returns a controller, or an error if config lacks a required field. It
// starts nothing.
func NewReplicationController(config ReplicationControllerConfig) (*ReplicationController, error) {
	err := loop.Required("replicaset: ReplicationControllerConfig", "ReplicationControllers", config.ReplicationControllers, "Pods", config.Pods,
		"PodsByController", config.PodsByController, "Writer", config.Writer, "PodWriter", config.PodWriter)
	if err != nil {
		return nil, err
	}
	c, err := newReplicaSet(Config{
		ReplicaSets:      replicationCache{config.ReplicationControllers},
		Pods:             config.Pods,
		PodsByController: config.PodsByController,
		Writer:           replicationStatus{config.Writer},
		PodWriter:        config.PodWriter,
		Events:           config.Events,
		Workers:          config.Workers,
		Metrics:          config.Metrics,
		Log:              config.Log,
	}, replicaKind{GroupVersionKind: replicationControllerKind, queue: "replicationmanager", text: "replication controller"})
	if err != nil {
		return nil, err
	}
	return &ReplicationController{c.Controller}, nil
}

// replicationCache shows ReplicationControllers as ReplicaSets. It converts an object on each read,
// so two reads return equal objects but different pointers.
type replicationCache struct {
	localcache.Cache[*corev1.ReplicationController]
}

func (c replicationCache) Get(key string) (*appsv1.ReplicaSet, bool) {
	rc, ok := c.Cache.Get(key)
	return asReplicaSet(rc), ok
}

func (c replicationCache) All() iter.Seq[*appsv1.ReplicaSet] {
	return func(yield func(*appsv1.ReplicaSet) bool) {
		for rc := range c.Cache.All() {
			if !yield(asReplicaSet(rc)) {
				return
			}
		}
	}
}

func (c replicationCache) Subscribe(handle func(old, new *appsv1.ReplicaSet)) localcache.Subscription {
	return c.Cache.Subscribe(func(old, new *corev1.ReplicationController) { handle(asReplicaSet(old), asReplicaSet(new)) })
}

// replicationStatus writes the status of a ReplicationController that is shown as a ReplicaSet.
type replicationStatus struct {
	status controllers.StatusUpdater[*corev1.ReplicationController]
}

func (s replicationStatus) UpdateStatus(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	rc, err := s.status.UpdateStatus(ctx, asReplicationController(rs))
	if err != nil {
		return nil, err
	}
	return asReplicaSet(rc), nil
}

// asReplicaSet returns a ReplicaSet that shares the fields of rc, or nil if rc is nil. Without a
// selector, which the API does not store, it selects nothing.
func asReplicaSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	if rc == nil {
		return nil
	}
	rs := &appsv1.ReplicaSet{
		ObjectMeta: rc.ObjectMeta,
		Spec:       appsv1.ReplicaSetSpec{Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds},
		Status: appsv1.ReplicaSetStatus{
			Replicas:             rc.Status.Replicas,
			FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas:        rc.Status.ReadyReplicas,
			AvailableReplicas:    rc.Status.AvailableReplicas,
			ObservedGeneration:   rc.Status.ObservedGeneration,
		},
	}
	if len(rc.Spec.Selector) > 0 {
		rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
	}
	if rc.Spec.Template != nil {
		rs.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return rs
}

// asReplicationController is the inverse of asReplicaSet.
func asReplicationController(rs *appsv1.ReplicaSet) *corev1.ReplicationController {
	rc := &corev1.ReplicationController{
		ObjectMeta: rs.ObjectMeta,
		Spec:       corev1.ReplicationControllerSpec{Replicas: rs.Spec.Replicas, MinReadySeconds: rs.Spec.MinReadySeconds, Template: &rs.Spec.Template},
		Status: corev1.ReplicationControllerStatus{
			Replicas:             rs.Status.Replicas,
			FullyLabeledReplicas: rs.Status.FullyLabeledReplicas,
			ReadyReplicas:        rs.Status.ReadyReplicas,
			AvailableReplicas:    rs.Status.AvailableReplicas,
			ObservedGeneration:   rs.Status.ObservedGeneration,
		},
	}
	if rs.Spec.Selector != nil {
		rc.Spec.Selector = rs.Spec.Selector.MatchLabels
	}
	for _, c := range rs.Status.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return rc
}
