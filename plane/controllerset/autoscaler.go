package controllerset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/autoscale"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (e *Env) autoscaler() (controllers.Runner, error) {
	return autoscale.New(autoscale.Config{
		Autoscalers:     e.Caches.Autoscalers,
		Pods:            e.Caches.Pods,
		PodsByNamespace: e.Caches.PodsByNamespace,
		Writer:          typed.HorizontalPodAutoscalers(e.Client),
		Scales:          targets{e.Client},
		Source:          measures{e.Client},
		Tuning:          e.config.Tuning.Autoscaling,
		Events:          e.Events,
		Workers:         e.Workers,
		Metrics:         e.Metrics,
		Log:             e.Log,
	})
}

// targets reads and writes the scale of any kind that the server has.
type targets struct{ api *client.Client }

// Scale implements [autoscale.Scaler].
func (t targets) Scale(ctx context.Context, namespace string, target autoscalingv2.CrossVersionObjectReference) (*autoscalingv1.Scale, error) {
	path, err := t.path(ctx, namespace, target)
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{}
	return scale, scales(t).get(ctx, path, scale)
}

// SetScale implements [autoscale.Scaler].
func (t targets) SetScale(ctx context.Context, target autoscalingv2.CrossVersionObjectReference, scale *autoscalingv1.Scale) error {
	path, err := t.path(ctx, scale.Namespace, target)
	if err != nil {
		return err
	}
	scale.TypeMeta = metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}
	body, err := json.Marshal(scale)
	if err == nil {
		_, err = t.api.Do(ctx, client.Request{Method: http.MethodPut, Path: path, ContentType: "application/json", Body: body})
	}
	return err
}

func (t targets) path(ctx context.Context, namespace string, target autoscalingv2.CrossVersionObjectReference) (string, error) {
	version, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil {
		return "", err
	}
	root, plural, err := findKind(ctx, t.api, version.WithKind(target.Kind))
	return root + "/namespaces/" + url.PathEscape(namespace) + "/" + plural + "/" + url.PathEscape(target.Name) + "/scale", err
}

// findKind returns the path of the version in which the server has a kind, the given one if it has that, and the
// plural.
func findKind(ctx context.Context, api *client.Client, kind schema.GroupVersionKind) (root, plural string, err error) {
	read := scales{api}
	in := func(version string) bool {
		root = "/apis/" + kind.Group + "/" + version
		if kind.Group == "" {
			root = "/api/" + version
		}
		var served metav1.APIResourceList
		if err := read.get(ctx, root, &served); err != nil {
			return false
		}
		i := slices.IndexFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind && !strings.Contains(r.Name, "/") })
		if i >= 0 {
			plural = served.APIResources[i].Name
		}
		return i >= 0
	}
	if kind.Version != "" && in(kind.Version) {
		return root, plural, nil
	}
	var group metav1.APIGroup
	if kind.Group == "" {
		group.Versions = []metav1.GroupVersionForDiscovery{{Version: "v1"}}
	} else if err := read.get(ctx, "/apis/"+kind.Group, &group); err != nil && !apierrors.IsNotFound(err) {
		return "", "", err
	}
	for _, v := range group.Versions {
		if in(v.Version) {
			return root, plural, nil
		}
	}
	return "", "", fmt.Errorf("no matches for kind %q in group %q", kind.Kind, kind.Group)
}

// measures reads metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io from the server, which some
// other server may serve.
type measures struct{ api *client.Client }

// podMetrics has what is read of a list of PodMetrics.
type podMetrics struct {
	Items []struct {
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Timestamp  metav1.Time       `json:"timestamp"`
		Window     metav1.Duration   `json:"window"`
		Containers []struct {
			Name  string              `json:"name"`
			Usage corev1.ResourceList `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// metricValues has what is read of the lists of both other groups.
type metricValues struct {
	Items []struct {
		DescribedObject corev1.ObjectReference `json:"describedObject"`
		Timestamp       metav1.Time            `json:"timestamp"`
		WindowSeconds   *int64                 `json:"windowSeconds"`
		Value           resource.Quantity      `json:"value"`
	} `json:"items"`
}

// Resource implements [autoscale.Source].
func (m measures) Resource(ctx context.Context, namespace string, pods labels.Selector, name corev1.ResourceName, container string) (map[string]autoscale.Sample, error) {
	var list podMetrics
	query := url.Values{"labelSelector": {pods.String()}}
	if err := m.get(ctx, "/apis/metrics.k8s.io/v1beta1/namespaces/"+url.PathEscape(namespace)+"/pods", query, &list, "get pods.metrics.k8s.io"); err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	out := make(map[string]autoscale.Sample, len(list.Items))
	for _, item := range list.Items {
		sample := autoscale.Sample{Time: item.Timestamp.Time, Window: item.Window.Duration}
		measured := 0
		for _, c := range item.Containers {
			amount, ok := c.Usage[name]
			if container != "" && c.Name != container {
				continue
			}
			if !ok {
				measured = 0
				break
			}
			sample.Milli += amount.MilliValue()
			measured++
		}
		if measured > 0 {
			out[item.Metadata.Name] = sample
		}
	}
	return out, nil
}

// defaultWindow applies to metrics without a window.
const defaultWindow = time.Minute

// Pods implements [autoscale.Source].
func (m measures) Pods(ctx context.Context, namespace string, pods labels.Selector, metric autoscale.Metric) (map[string]autoscale.Sample, error) {
	list, err := m.custom(ctx, "/namespaces/"+url.PathEscape(namespace)+"/pods/*/"+url.PathEscape(metric.Name), pods, metric)
	if err != nil {
		return nil, err
	}
	out := make(map[string]autoscale.Sample, len(list.Items))
	for _, item := range list.Items {
		window := defaultWindow
		if item.WindowSeconds != nil {
			window = time.Duration(*item.WindowSeconds) * time.Second
		}
		out[item.DescribedObject.Name] = autoscale.Sample{Time: item.Timestamp.Time, Window: window, Milli: item.Value.MilliValue()}
	}
	return out, nil
}

// Object implements [autoscale.Source].
func (m measures) Object(ctx context.Context, namespace string, object autoscalingv2.CrossVersionObjectReference, metric autoscale.Metric) (int64, error) {
	gvk := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind)
	_, plural, err := findKind(ctx, m.api, gvk)
	if err != nil {
		return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	of := schema.GroupResource{Group: gvk.Group, Resource: plural}.String()
	path := "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(of) + "/" + url.PathEscape(object.Name) + "/" + url.PathEscape(metric.Name)
	if gvk.Kind == "Namespace" && gvk.Group == "" { // an autoscaler may measure its own one alone
		path = "/namespaces/" + url.PathEscape(namespace) + "/metrics/" + url.PathEscape(metric.Name)
	}
	list, err := m.custom(ctx, path, nil, metric)
	if err != nil {
		return 0, err
	}
	return list.Items[0].Value.MilliValue(), nil
}

// custom reads a list, which is not empty, of custom.metrics.k8s.io.
func (m measures) custom(ctx context.Context, path string, objects labels.Selector, metric autoscale.Metric) (metricValues, error) {
	query := url.Values{}
	if objects != nil {
		query.Set("labelSelector", objects.String())
	}
	if !metric.Selector.Empty() {
		query.Set("metricLabelSelector", metric.Selector.String())
	}
	var list metricValues
	var group metav1.APIGroup
	err := scales(m).get(ctx, "/apis/custom.metrics.k8s.io", &group)
	switch {
	case apierrors.IsNotFound(err):
		err = errors.New("no custom metrics API (custom.metrics.k8s.io) registered")
	case err == nil:
		err = m.get(ctx, "/apis/"+group.PreferredVersion.GroupVersion+path, query, &list, "get "+metric.Name)
	}
	if err != nil {
		return list, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return list, errors.New("no metrics returned from custom metrics API")
	}
	return list, nil
}

// External implements [autoscale.Source].
func (m measures) External(ctx context.Context, namespace string, metric autoscale.Metric) ([]int64, error) {
	var list metricValues
	query := url.Values{}
	if !metric.Selector.Empty() {
		query.Set("labelSelector", metric.Selector.String())
	}
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(metric.Name)
	if err := m.get(ctx, path, query, &list, "get "+metric.Name+".external.metrics.k8s.io"); err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from external metrics API")
	}
	var values []int64
	for _, item := range list.Items {
		values = append(values, item.Value.MilliValue())
	}
	return values, nil
}

// get reads a path. The error of a path that the server does not have ends with what.
func (m measures) get(ctx context.Context, path string, query url.Values, into any, what string) error {
	response, err := m.api.Do(ctx, client.Request{Path: path, Query: query})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w (%s)", err, what)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(response.Body, into)
}
