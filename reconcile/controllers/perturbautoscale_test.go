package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/autoscale"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// loadWorld is a world whose replication controllers are scaled by the load that their pods share.
type loadWorld struct {
	*budgetWorld
	autoscalers *collection[*autoscalingv2.HorizontalPodAutoscaler]
	load        atomic.Int64
}

func (w *loadWorld) autoscaler(ctx context.Context, l lag) (*autoscale.Controller, error) {
	pods := follow(ctx, w.pods, l)
	return autoscale.New(autoscale.Config{
		Autoscalers: follow(ctx, w.autoscalers, l), Pods: pods, PodsByNamespace: localcache.Scan(pods, controllers.ByNamespace[*corev1.Pod]),
		Writer: w.autoscalers, Scales: w, Source: w, Events: w.api,
	})
}

// Scale implements [autoscale.Scaler].
func (w *loadWorld) Scale(ctx context.Context, namespace string, target autoscalingv2.CrossVersionObjectReference) (*autoscalingv1.Scale, error) {
	rc, err := w.replications.Get(ctx, namespace, target.Name)
	if err != nil {
		return nil, err
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: rc.Name, ResourceVersion: rc.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: *rc.Spec.Replicas}, Status: autoscalingv1.ScaleStatus{Selector: "app=web"},
	}, nil
}

// SetScale implements [autoscale.Scaler].
func (w *loadWorld) SetScale(ctx context.Context, _ autoscalingv2.CrossVersionObjectReference, scale *autoscalingv1.Scale) error {
	rc, err := w.replications.Get(ctx, scale.Namespace, scale.Name)
	if err != nil {
		return err
	}
	rc.ResourceVersion, rc.Spec.Replicas = scale.ResourceVersion, &scale.Spec.Replicas
	_, err = w.replications.Update(ctx, rc)
	return err
}

// Resource implements [autoscale.Source]. The pods that are ready share the load.
func (w *loadWorld) Resource(context.Context, string, labels.Selector, corev1.ResourceName, string) (map[string]autoscale.Sample, error) {
	out := map[string]autoscale.Sample{}
	for _, pod := range w.pods.list() {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			out[pod.Name] = autoscale.Sample{Time: time.Now()}
		}
	}
	for name := range out {
		out[name] = autoscale.Sample{Time: time.Now(), Milli: w.load.Load() / int64(len(out))}
	}
	return out, nil
}

var errNoSuchMetric = errors.New("there is no such metric")

func (w *loadWorld) Pods(context.Context, string, labels.Selector, autoscale.Metric) (map[string]autoscale.Sample, error) {
	return nil, errNoSuchMetric
}

func (w *loadWorld) Object(context.Context, string, autoscalingv2.CrossVersionObjectReference, autoscale.Metric) (int64, error) {
	return 0, errNoSuchMetric
}

func (w *loadWorld) External(context.Context, string, autoscale.Metric) ([]int64, error) {
	return nil, errNoSuchMetric
}

// autoscales changes the load and the limits of an autoscaler.
func autoscales(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := &loadWorld{budgetWorld: newBudgetWorld()}
	w.autoscalers = newCollection(w.api, "HorizontalPodAutoscaler", func() *autoscalingv2.HorizontalPodAutoscaler { return &autoscalingv2.HorizontalPodAutoscaler{} })
	w.load.Store(300)
	w.kubelet(ctx, rand.New(rand.NewPCG(r.Uint64(), 2)))
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	rc.Spec.Replicas = new(int32(3))
	must[*corev1.ReplicationController](t)(w.replications.Create(outside(), rc))
	w.replace(ctx, rand.New(rand.NewPCG(r.Uint64(), 3)))
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	percent := []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}
	a.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "ReplicationController", Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 6,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceMemory, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewMilliQuantity(100, resource.BinarySI)},
		}}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32), SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Policies: percent},
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(30)), SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Policies: percent},
		},
	}
	must[*autoscalingv2.HorizontalPodAutoscaler](t)(w.autoscalers.Create(outside(), a))
	w.replications.check = func(_, new *corev1.ReplicationController) {
		if n := *new.Spec.Replicas; n < 2 || n > 8 {
			t.Errorf("%d replicas", n)
		}
	}
	st := single(t, w.api, w.autoscaler)
	st.steps = []func(){
		func() { w.load.Store(900) },
		func() {
			w.autoscalers.alter(t, "default/web", func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.MaxReplicas = 8 })
		},
		func() { w.load.Store(250) },
	}
	st.wanted = func() {
		now, a := w.replications.list()[0], w.autoscalers.list()[0]
		if s := a.Status; *now.Spec.Replicas != 3 || s.CurrentReplicas != 3 || s.DesiredReplicas != 3 || len(s.Conditions) != 3 {
			t.Errorf("%d replicas, status %+v", *now.Spec.Replicas, s)
		}
	}
	return st
}
