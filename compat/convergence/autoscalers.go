package convergence

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// AutoscalingPeriod is the time between two looks of a controller at an autoscaler. It is shorter than
// the time after which a room has settled, and so long that a failing autoscaler has few enough events
// for none to be dropped.
const AutoscalingPeriod = time.Second

// Autoscalers returns the scenarios of HorizontalPodAutoscalers.
func Autoscalers() []Scenario {
	return []Scenario{
		{Name: "rising", Steps: []Step{
			{Name: "a load without an autoscaler", Do: all(setUsage("web", "200m"), createDeployment(requesting(deployment("web", 1))))},
			// From one replica to four at once, which brings the pods to half their requests.
			{Name: "up", Do: createAutoscaler(ofDeployment(autoscaler("web", 1, 5, cpu(50)))), Until: scaledTo("web", 4)},
			{Name: "up to the maximum", Do: setUsage("web", "800m"), Until: scaledTo("web", 5)},
			{Name: "delete", Do: deleteAutoscalers},
		}},
		{Name: "falling", Steps: []Step{
			{Name: "a load", Do: all(setUsage("web", "150m"), createDeployment(requesting(deployment("web", 3))))},
			{Name: "steady", Do: createAutoscaler(ofDeployment(autoscaler("web", 1, 5, cpu(50)))), Until: scaledTo("web", 3)},
			{Name: "down, stabilized", Do: setUsage("web", "30m"), Until: hasReason("web", autoscalingv2.AbleToScale, "ScaleDownStabilized")},
			{Name: "down by one a minute", Do: changeAutoscaler("web", func(a *autoscalingv2.HorizontalPodAutoscaler) {
				a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
					StabilizationWindowSeconds: ptr.To[int32](0),
					Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 1, PeriodSeconds: 60}},
				}}
			}), Until: scaledTo("web", 2)},
			{Name: "delete", Do: deleteAutoscalers},
		}},
		{Name: "limits", Steps: []Step{
			{Name: "a load", Do: all(setUsage("web", "150m"), createDeployment(requesting(deployment("web", 1))))},
			{Name: "below the minimum", Do: createAutoscaler(ofDeployment(autoscaler("web", 3, 5, cpu(50)))), Until: scaledTo("web", 3)},
			{Name: "above a new maximum", Do: changeAutoscaler("web", limits(1, 2)), Until: scaledTo("web", 2)},
			{Name: "stopped by hand", Do: changeDeployment("web", replicas(0)), Until: hasReason("web", autoscalingv2.ScalingActive, "ScalingDisabled")},
			{Name: "delete", Do: deleteAutoscalers},
		}},
		{Name: "measured", Steps: []Step{
			{Name: "pods", Do: all(createReplicaSet(measured(replicaSet("memory", 1))), createReplicaSet(measured(replicaSet("partly", 1))),
				createReplicaSet(measured(replicaSet("container", 1))), setUsage("memory.memory", "192Mi"), setUsage("partly", "100m"), setUsage("container", "20m"))},
			{Name: "autoscalers", Do: all(
				createAutoscaler(autoscaler("memory", 1, 4, memory("100Mi"))),
				// The metric that is known asks for more replicas, so it counts.
				createAutoscaler(targeting(autoscaler("partly", 1, 4, podsMetric("requests"), cpu(50)), "apps/v1beta1", "ReplicaSet")),
				createAutoscaler(autoscaler("container", 1, 4, container("main", 50))),
			), Until: allOf(scaledTo("memory", 2), scaledTo("partly", 2), scaledTo("container", 1))},
			{Name: "delete", Do: deleteAutoscalers},
		}},
		{Name: "unmeasured", Steps: []Step{
			{Name: "pods", Do: all(each(func(name string) do {
				return all(setUsage(name, "10m"), createReplicaSet(measured(replicaSet(name, 1))))
			},
				"container", "object", "external", "pods", "fewer"),
				setUsage("requestless", "10m"), createReplicaSet(replicaSet("requestless", 1)), createReplicaSet(measured(replicaSet("silent", 1))))},
			{Name: "autoscalers", Do: all(
				createAutoscaler(targeting(autoscaler("gone", 1, 3, cpu(50)), "apps/v1", "StatefulSet")),
				createAutoscaler(targeting(autoscaler("scaleless", 1, 3, cpu(50)), "batch/v1", "CronJob")),
				createAutoscaler(targeting(autoscaler("unknown", 1, 3, cpu(50)), "nowhere.example.com/v1", "Nothing")),
				createAutoscaler(autoscaler("requestless", 1, 3, cpu(50))),
				createAutoscaler(autoscaler("silent", 1, 3, cpu(50))),
				createAutoscaler(autoscaler("container", 1, 3, container("side", 50))),
				createAutoscaler(autoscaler("object", 1, 3, objectMetric("depth"))),
				createAutoscaler(autoscaler("external", 1, 3, externalMetric("depth"))),
				createAutoscaler(autoscaler("pods", 1, 3, podsMetric("requests"))),
				// The metric that is known asks for no more replicas, so nothing is scaled.
				createAutoscaler(autoscaler("fewer", 1, 3, cpu(50), podsMetric("requests"), externalMetric("depth"))),
			), Until: eachHasCondition},
			{Name: "delete", Do: deleteAutoscalers},
		}},
	}
}

// requests are the requests of each pod whose use is measured.
var requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}

func requesting(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Template.Spec.Containers[0].Resources.Requests = requests
	return d
}

func measured(set *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	set.Spec.Template.Spec.Containers[0].Resources.Requests = requests
	return set
}

// autoscaler returns an autoscaler of the ReplicaSet of its name.
func autoscaler(name string, least, most int32, metrics ...autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name},
			MinReplicas:    &least, MaxReplicas: most, Metrics: metrics,
		},
	}
}

// targeting returns a with a target of another kind or version.
func targeting(a *autoscalingv2.HorizontalPodAutoscaler, version, kind string) *autoscalingv2.HorizontalPodAutoscaler {
	a.Spec.ScaleTargetRef.APIVersion, a.Spec.ScaleTargetRef.Kind = version, kind
	return a
}

func ofDeployment(a *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	return targeting(a, "apps/v1", "Deployment")
}

func utilization(percent int32) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}
}

func average(amount string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse(amount))}
}

// cpu is a metric with a target in percent of the requests.
func cpu(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: utilization(percent)},
	}
}

// memory is a metric with a target for the average of the pods.
func memory(amount string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceMemory, Target: average(amount)},
	}
}

// container is a metric of the CPU of one container.
func container(name string, percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type:              autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: name, Target: utilization(percent)},
	}
}

// No server has the metrics of podsMetric, objectMetric and externalMetric.

func podsMetric(name string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.PodsMetricSourceType,
		Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: name}, Target: average("10")},
	}
}

func objectMetric(name string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "queue"},
		Metric:          autoscalingv2.MetricIdentifier{Name: name}, Target: average("10"),
	}}
}

func externalMetric(name string) autoscalingv2.MetricSpec {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "orders"}}
	return autoscalingv2.MetricSpec{
		Type:     autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: name, Selector: selector}, Target: average("10")},
	}
}

func limits(least, most int32) func(*autoscalingv2.HorizontalPodAutoscaler) {
	return func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.MinReplicas, a.Spec.MaxReplicas = &least, most }
}

func createAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).Create(ctx, a, metav1.CreateOptions{})
		return err
	}
}

func changeAutoscaler(name string, change func(*autoscalingv2.HorizontalPodAutoscaler)) do {
	return func(ctx context.Context, r *Room) error {
		autoscalers := r.Client.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace)
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			a, err := autoscalers.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(a)
			_, err = autoscalers.Update(ctx, a, metav1.UpdateOptions{})
			return err
		})
	}
}

// deleteAutoscalers deletes all autoscalers of a room, so that they are no load for those that still play.
func deleteAutoscalers(ctx context.Context, r *Room) error {
	return r.Client.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// setUsage sets what the pods of an app use together.
func setUsage(key, amount string) do {
	return func(ctx context.Context, r *Room) error {
		maps := r.Client.CoreV1().ConfigMaps(r.Namespace)
		m, err := maps.Get(ctx, usageMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: usageMap}, Data: map[string]string{key: amount}}
			_, err = maps.Create(ctx, m, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		m.Data[key] = amount
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	}
}

// scaledTo returns a condition that is true when an autoscaler has found as many replicas as it wants.
func scaledTo(name string, n int32) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		a, err := r.Client.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return a.Status.CurrentReplicas == n && a.Status.DesiredReplicas == n, nil
	}
}

func hasReason(name string, of autoscalingv2.HorizontalPodAutoscalerConditionType, reason string) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		a, err := r.Client.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(a.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == of && c.Reason == reason }), nil
	}
}

// eachHasCondition is true when a controller has looked at each autoscaler.
func eachHasCondition(ctx context.Context, r *Room) (bool, error) {
	list, err := r.Client.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(list.Items, func(a autoscalingv2.HorizontalPodAutoscaler) bool { return len(a.Status.Conditions) == 0 }), nil
}

// each does something for several names.
func each(one func(name string) do, names ...string) do {
	var list []do
	for _, name := range names {
		list = append(list, one(name))
	}
	return all(list...)
}

// allOf returns a condition that is true when all conditions are.
func allOf(conditions ...func(context.Context, *Room) (bool, error)) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		for _, condition := range conditions {
			if so, err := condition(ctx, r); err != nil || !so {
				return false, err
			}
		}
		return true, nil
	}
}
