package unsupported_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/authn/user"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func Example() {
	plugin, err := unsupported.New(unsupported.Config{
		Lookup: func(context.Context, admission.GroupVersionResource, admission.GroupVersionKind, string, string) (metav1.Object, error) {
			return nil, fmt.Errorf("nothing is stored in an example")
		},
		Event: func(about runtime.Object, eventType, reason, message string) {},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = plugin.Validate(context.Background(), &admission.Request{
		Operation: admission.Create,
		Resource:  admission.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		Kind:      admission.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
		Object:    &networkingv1.NetworkPolicy{},
		Warn:      func(text string) { fmt.Println("Warning:", text) },
	})
	fmt.Println(err)
	// Output:
	// Warning: kind NetworkPolicy: nothing enforces it on these nodes: all pods reach each other
	// <nil>
}

// newPlugin returns a plugin whose Lookup and Event may be nil.
func newPlugin(t *testing.T, c unsupported.Config) *unsupported.Plugin {
	t.Helper()
	if c.Lookup == nil {
		c.Lookup = func(context.Context, admission.GroupVersionResource, admission.GroupVersionKind, string, string) (metav1.Object, error) {
			return nil, context.Canceled
		}
	}
	if c.Event == nil {
		c.Event = func(runtime.Object, string, string, string) {}
	}
	p, err := unsupported.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request is a request of a user to write object.
func request(object any) *admission.Request {
	r := &admission.Request{Operation: admission.Create, Namespace: "default", Object: object, User: &user.Info{Name: "ann"}}
	core := func(resource, kind string) {
		r.Resource = admission.GroupVersionResource{Version: "v1", Resource: resource}
		r.Kind = admission.GroupVersionKind{Version: "v1", Kind: kind}
	}
	switch object.(type) {
	case *corev1.Pod:
		core("pods", "Pod")
	case *corev1.Service:
		core("services", "Service")
	case *corev1.Node:
		core("nodes", "Node")
	case *corev1.Namespace:
		core("namespaces", "Namespace")
	case *corev1.ConfigMap:
		core("configmaps", "ConfigMap")
	case *appsv1.Deployment:
		core("deployments", "Deployment")
		r.Resource.Group, r.Kind.Group = "apps", "apps"
	case *appsv1.StatefulSet:
		core("statefulsets", "StatefulSet")
		r.Resource.Group, r.Kind.Group = "apps", "apps"
	case *batchv1.Job:
		core("jobs", "Job")
		r.Resource.Group, r.Kind.Group = "batch", "batch"
	default:
		panic(fmt.Sprintf("%T", object))
	}
	return r
}

// warnings returns what a request is warned of.
func warnings(t *testing.T, p *unsupported.Plugin, r *admission.Request) []string {
	t.Helper()
	var texts []string
	r.Warn = func(text string) { texts = append(texts, text) }
	if err := p.Validate(t.Context(), r); err != nil {
		t.Fatalf("a warning refused the request: %v", err)
	}
	return texts
}

// withDevice is the spec of a pod with one container that has a block device.
func withDevice() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx", VolumeDevices: []corev1.VolumeDevice{{Name: "disk"}}}}}
}

const device = "volumeDevices: block devices are not passed to containers yet"

func TestWarnings(t *testing.T) {
	pod := func(change func(*corev1.PodSpec)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}}}
		change(&p.Spec)
		return p
	}
	service := func(spec corev1.ServiceSpec) *corev1.Service { return &corev1.Service{Spec: spec} }
	on := true
	for _, test := range []struct {
		name   string
		object any
		want   []string // each the beginning of a warning
	}{
		{"plain pod", pod(func(s *corev1.PodSpec) { s.EnableServiceLinks = &on }), nil},
		{"other kind", &corev1.ConfigMap{}, nil},
		{"kind", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: withDevice()}}},
			[]string{"kind StatefulSet: no controller acts on it yet: no pods are made"}},
		{"device", &corev1.Pod{Spec: withDevice()}, []string{"spec.containers[0]." + device}},
		{"template", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: withDevice()}}},
			[]string{"spec.template.spec.containers[0]." + device}},
		{"several", pod(func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, withDevice().Containers[0], withDevice().Containers[0])
			s.InitContainers = withDevice().Containers
		}), []string{"spec.containers[1].volumeDevices (and 1 more): ", "spec.initContainers[0].volumeDevices: "}},
		{"probes and hooks", pod(func(s *corev1.PodSpec) {
			s.Containers[0].LivenessProbe = &corev1.Probe{}
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}
		}), nil},
		{"sidecar", pod(func(s *corev1.PodSpec) {
			always := corev1.ContainerRestartPolicyAlways
			s.InitContainers = []corev1.Container{{RestartPolicy: &always}}
		}), nil},
		{"main container's restart policy", pod(func(s *corev1.PodSpec) {
			always := corev1.ContainerRestartPolicyAlways
			s.Containers[0].RestartPolicy = &always
			s.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{
				{Action: corev1.ContainerRestartRuleActionRestart}, {Action: corev1.ContainerRestartRuleActionRestartAllContainers},
			}
		}), nil},
		{"host port", pod(func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {HostPort: 80}}
		}),
			[]string{"spec.containers[0].ports[1].hostPort: "}},
		{"host network", pod(func(s *corev1.PodSpec) {
			s.HostNetwork = true
			s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		}), nil},
		{"limits", pod(func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
		}), nil},
		{"limit of disk", pod(func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}
		}), nil},
		{"huge pages", pod(func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("1Gi")}
		}), nil},
		{"volumes", pod(func(s *corev1.PodSpec) {
			size := resource.MustParse("1Gi")
			s.Volumes = []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}},
				{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}},
				{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}},
				{VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}},
			}
		}), []string{"spec.volumes[3]: ", "spec.volumes[2].emptyDir.medium: "}},
		{"hard constraints", pod(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}}}
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule}}
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		}), []string{"spec.resourceClaims: not supported yet: the pod stays Pending"}},
		{"host users", pod(func(s *corev1.PodSpec) { s.HostUsers = &on }), nil},
		{"cluster IP", service(corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1"}), []string{"spec.clusterIP: "}},
		{"headless", service(corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone}), nil},
		{"load balancer", service(corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{NodePort: 30000}, {NodePort: 30001}},
		}), []string{"spec.clusterIP: ", "spec.ports[0].nodePort (and 1 more): ", "spec.type: nothing makes load balancers"}},
		{"labels", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kubernetes.io/metadata.name": "team"}}}, nil},
		{"pod security", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := warnings(t, newPlugin(t, unsupported.Config{}), request(test.object))
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("warned of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestSilent: nothing is said of what was said before, and of what no client asked for.
func TestSilent(t *testing.T) {
	const controller = true
	p := newPlugin(t, unsupported.Config{})
	owned := func(version, kind string) *corev1.Pod {
		is := controller
		return &corev1.Pod{Spec: withDevice(), ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Controller: &is}}}}
	}
	update := func(change func(r *admission.Request, object *corev1.Pod)) *admission.Request {
		old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: withDevice()}
		object := old.DeepCopy()
		r := request(object)
		r.Operation, r.OldObject = admission.Update, old
		change(r, object)
		return r
	}
	for _, test := range []struct {
		name    string
		request *admission.Request
		warned  bool
	}{
		{"of a replica set", request(owned("apps/v1", "ReplicaSet")), false},
		{"of a job", request(owned("batch/v1", "Job")), false},
		{"of a controller that was not warned", request(owned("example.com/v1", "Widget")), true},
		{"update of metadata", update(func(_ *admission.Request, o *corev1.Pod) { o.Labels = map[string]string{"a": "b"} }), false},
		{"update of the spec", update(func(_ *admission.Request, o *corev1.Pod) { o.Generation = 2 }), true},
		{"update without a generation that adds a field", update(func(r *admission.Request, _ *corev1.Pod) { r.OldObject = &corev1.Pod{} }), true},
		{"status", update(func(r *admission.Request, o *corev1.Pod) { r.Subresource, o.Generation = "status", 2 }), false},
		{"delete", update(func(r *admission.Request, _ *corev1.Pod) { r.Operation, r.Object = admission.Delete, nil }), false},
		{"update while it is being deleted", update(func(_ *admission.Request, o *corev1.Pod) {
			o.Generation, o.DeletionTimestamp = 2, &metav1.Time{Time: time.Unix(1, 0)}
		}), false},
		{"API server", update(func(r *admission.Request, o *corev1.Pod) {
			r.User, o.Generation = &user.Info{Name: user.APIServer}, 2
		}), false},
		{"nobody", update(func(r *admission.Request, o *corev1.Pod) { r.User, o.Generation = nil, 2 }), true},
	} {
		if got := warnings(t, p, test.request); (len(got) > 0) != test.warned {
			t.Errorf("%s: warned of %q, want warnings: %v", test.name, got, test.warned)
		}
	}
	r := request(&corev1.Pod{Spec: withDevice()})
	if err := p.Validate(t.Context(), r); err != nil { // without Warn
		t.Error(err)
	}
}

// TestWarningsAreBounded: the headers stay below 4 KiB, however much of the table applies.
func TestWarningsAreBounded(t *testing.T) {
	var rows []unsupported.Row
	for _, row := range unsupported.Table() {
		if row.In == unsupported.Pods {
			row.When = func(any, []any) bool { return true }
		}
		rows = append(rows, row)
	}
	for _, more := range []string{"hostname", "nodeName", "schedulerName"} {
		rows = append(rows, unsupported.Row{In: unsupported.Pods, Path: more, Effect: "has no effect"})
	}
	spec := everything()
	size := 0
	got := warnings(t, newPlugin(t, unsupported.Config{Table: rows}), request(&corev1.Pod{Spec: spec}))
	for _, text := range got {
		size += len(`Warning: 299 - ""`) + 2 + len(text)
	}
	last := got[len(got)-1]
	if len(got) != 20 || size > 4<<10 || !strings.HasSuffix(last, " more fields have no effect here yet") {
		t.Errorf("%d warnings of %d bytes, the last %q", len(got), size, last)
	}
}

func TestNewRefuses(t *testing.T) {
	lookup := func(context.Context, admission.GroupVersionResource, admission.GroupVersionKind, string, string) (metav1.Object, error) {
		return nil, nil
	}
	event := func(runtime.Object, string, string, string) {}
	row := func(in, path string) []unsupported.Row {
		return []unsupported.Row{{In: in, Path: path, Effect: "none"}}
	}
	for name, c := range map[string]unsupported.Config{
		"no lookup":    {Event: event},
		"no event":     {Lookup: lookup},
		"no field":     {Lookup: lookup, Event: event, Table: row(unsupported.Pods, "containers[].probe")},
		"no such type": {Lookup: lookup, Event: event, Table: row("widgets.example.com", "spec.size")},
		"into a value": {Lookup: lookup, Event: event, Table: row("services", "spec.clusterIP.ip")},
	} {
		if _, err := unsupported.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
