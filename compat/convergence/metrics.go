package convergence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/planekit/planekit/metricsapi"
)

// usageMap is the name of the ConfigMap that holds the load of a room: the CPU of all pods with the
// label app=NAME under NAME, and their memory under NAME.memory. The pods that run share it.
const usageMap = "usage"

// metrics serves metrics.k8s.io for one side.
type metrics struct{ client kubernetes.Interface }

// serveMetrics starts a metrics API for a side until ctx is done, and registers it. It returns when
// the API server serves the group.
func serveMetrics(ctx context.Context, s *Side) error {
	server := httptest.NewTLSServer(metrics{s.client})
	context.AfterFunc(ctx, server.Close)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return err
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := s.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	_, err = s.dynamic.Resource(services).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": metricsapi.GroupVersion.Version + "." + metricsapi.GroupVersion.Group},
		"spec": map[string]any{
			"group": metricsapi.GroupVersion.Group, "version": metricsapi.GroupVersion.Version,
			"groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": metav1.NamespaceDefault, "name": service.Name, "port": port},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for {
		_, err := s.client.Discovery().RESTClient().Get().AbsPath("/apis", metricsapi.GroupVersion.Group, metricsapi.GroupVersion.Version).DoRaw(ctx)
		if !apierrors.IsNotFound(err) && !apierrors.IsServiceUnavailable(err) {
			return err
		}
		if failed := pause(ctx, settled/30); failed != nil {
			return errors.Join(err, failed)
		}
	}
}

// ServeHTTP serves the discovery of the group and lists of the metrics of pods.
func (m metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root := "/apis/" + metricsapi.GroupVersion.String()
	var answer any
	rest, ok := strings.CutPrefix(r.URL.Path, root+"/namespaces/")
	namespace, resource, _ := strings.Cut(rest, "/")
	switch {
	case r.URL.Path == root:
		answer = metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: metricsapi.GroupVersion.String(),
			APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}},
		}
	case ok && resource == "pods":
		list, err := m.list(r.Context(), namespace, r.URL.Query().Get("labelSelector"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer = list
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}

// list returns the metrics of the pods that a selector selects.
func (m metrics) list(ctx context.Context, namespace, selector string) (*metricsapi.PodMetricsList, error) {
	wanted, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	load, err := m.client.CoreV1().ConfigMaps(namespace).Get(ctx, usageMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	pods, err := m.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	})
	sharing := map[string]int64{}
	for _, pod := range running {
		sharing[pod.Labels["app"]]++
	}
	list := &metricsapi.PodMetricsList{
		TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: metricsapi.GroupVersion.String()}, Items: []metricsapi.PodMetrics{},
	}
	for _, pod := range running {
		app := pod.Labels["app"]
		used := corev1.ResourceList{}
		for key, name := range map[string]corev1.ResourceName{app: corev1.ResourceCPU, app + ".memory": corev1.ResourceMemory} {
			text, ok := load.Data[key]
			if !ok {
				continue
			}
			whole, err := resource.ParseQuantity(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			used[name] = *resource.NewMilliQuantity(whole.MilliValue()/sharing[app], whole.Format)
		}
		if len(used) == 0 || !wanted.Matches(labels.Set(pod.Labels)) {
			continue
		}
		list.Items = append(list.Items, metricsapi.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace, Labels: pod.Labels}, Timestamp: metav1.Now(),
			Containers: []metricsapi.ContainerMetrics{{Name: pod.Spec.Containers[0].Name, Usage: used}},
		})
	}
	return list, nil
}
