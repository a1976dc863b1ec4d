package generators_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/generators"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func Example() {
	object, err := generators.Run(generators.RunOptions{Name: "nginx", Image: "nginx", Replicas: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := object.(*appsv1.Deployment).Spec
	spec.Strategy = appsv1.DeploymentStrategy{}
	text, err := yaml.Marshal(spec)
	fmt.Print(string(text), err)
	// Output:
	// replicas: 3
	// selector:
	//   matchLabels:
	//     run: nginx
	// strategy: {}
	// template:
	//   metadata:
	//     labels:
	//       run: nginx
	//   spec:
	//     containers:
	//     - image: nginx
	//       name: nginx
	//       resources: {}
	//     restartPolicy: Always
	// <nil>
}

func TestKinds(t *testing.T) {
	o := generators.RunOptions{Name: "x", Namespace: "shop", Image: "busybox:1.36", Replicas: 1, Port: 80,
		Env: []string{"A=b=c"}, Labels: "app=x,tier=", Command: []string{"sh"}, Args: []string{"-c", "true"}}
	check := func(spec corev1.PodSpec, labels map[string]string, restart corev1.RestartPolicy) {
		t.Helper()
		c := spec.Containers[0]
		if c.Name != "x" || c.Image != "busybox:1.36" || c.Ports[0].ContainerPort != 80 || c.Env[0] != (corev1.EnvVar{Name: "A", Value: "b=c"}) ||
			c.Command[0] != "sh" || len(c.Args) != 2 || spec.RestartPolicy != restart {
			t.Errorf("the spec is %+v, want x of busybox:1.36, port 80, A=b=c, command sh, 2 args, restart policy %s", spec, restart)
		}
		if len(labels) != 2 || labels["app"] != "x" {
			t.Errorf("labels %v", labels)
		}
	}
	for _, restart := range []corev1.RestartPolicy{"", "Always", "OnFailure", "Never"} {
		o.Restart = restart
		object, err := generators.Run(o)
		if err != nil {
			t.Fatal(err)
		}
		if object.GetNamespace() != "shop" || object.GetLabels()["app"] != "x" {
			t.Errorf("Run with restart %q = %+v, want the namespace shop and the label app=x", restart, object)
		}
		switch object := object.(type) {
		case *appsv1.Deployment:
			if restart != "" && restart != "Always" || *object.Spec.Replicas != 1 || object.Kind != "Deployment" || object.APIVersion != "apps/v1" {
				t.Errorf("Run with restart %q = %+v, want an apps/v1 Deployment of 1 replica, for Always or none", restart, object)
			}
			check(object.Spec.Template.Spec, object.Spec.Template.Labels, "Always")
		case *batchv1.Job:
			if restart != "OnFailure" || object.Kind != "Job" || object.APIVersion != "batch/v1" {
				t.Errorf("Run with restart %q = %+v, want a batch/v1 Job, for OnFailure", restart, object)
			}
			check(object.Spec.Template.Spec, object.Spec.Template.Labels, restart)
		case *corev1.Pod:
			if restart != "Never" || object.Kind != "Pod" || object.APIVersion != "v1" {
				t.Errorf("Run with restart %q = %+v, want a v1 Pod, for Never", restart, object)
			}
			check(object.Spec, object.Labels, restart)
		default:
			t.Errorf("Run with restart %q = %T, want a Deployment, a Job or a Pod", restart, object)
		}
	}
}

// TestService: the Service selects the labels of the pods.
func TestService(t *testing.T) {
	o := generators.RunOptions{Name: "x", Image: "nginx", Port: 8080, Labels: "app=y"}
	service, err := generators.Service(o)
	if err != nil || service.Name != "x" || service.Spec.Selector["app"] != "y" || service.Spec.Ports[0].Port != 8080 || service.Spec.Ports[0].TargetPort.IntValue() != 8080 {
		t.Errorf("Service(%+v) = %v, %v, want x with the selector app=y, port and target port 8080", o, service, err)
	}
	o.Port = 0
	if _, err := generators.Service(o); err == nil || err.Error() != "--port must be set when exposing a service" {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*generators.RunOptions){
		"NAME is required for run":                                func(o *generators.RunOptions) { o.Name = "" },
		"--image is required":                                     func(o *generators.RunOptions) { o.Image = "" },
		`Invalid image name "Nginx": invalid reference format`:    func(o *generators.RunOptions) { o.Image = "Nginx" },
		"invalid restart policy: Sometimes":                       func(o *generators.RunOptions) { o.Restart = "Sometimes" },
		"--restart=Never requires that --replicas=1, found 2":     func(o *generators.RunOptions) { o.Restart, o.Replicas = "Never", 2 },
		"--restart=OnFailure requires that --replicas=1, found 0": func(o *generators.RunOptions) { o.Restart, o.Replicas = "OnFailure", 0 },
		"--replicas must be greater than or equal to 0":           func(o *generators.RunOptions) { o.Replicas = -1 },
		"invalid port: 65536":                                     func(o *generators.RunOptions) { o.Port = 65536 },
		"invalid env: A":                                          func(o *generators.RunOptions) { o.Env = []string{"A"} },
		"invalid env: =x":                                         func(o *generators.RunOptions) { o.Env = []string{"=x"} },
		"unexpected label spec: a":                                func(o *generators.RunOptions) { o.Labels = "a" },
		"unexpected label spec: a=b=c":                            func(o *generators.RunOptions) { o.Labels = "a=b=c" },
		"unexpected empty label key":                              func(o *generators.RunOptions) { o.Labels = "=b" },
	} {
		o := generators.RunOptions{Name: "x", Image: "nginx", Replicas: 1}
		change(&o)
		if object, err := generators.Run(o); err == nil || err.Error() != want {
			t.Errorf("%v %v, want %s", object, err, want)
		}
	}
}

func TestImageNames(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, ok := range map[string]bool{
		"nginx": true, "nginx:1.29": true, "library/nginx": true, "localhost:5000/a/b_c:x": true, "[::1]:5000/a": true,
		"registry.example.com/a.b/c--d" + digest: true, "a:v1" + digest: true, "Host.COM/a": true,
		"": false, "a b": false, "A": false, "a:": false, "a@sha256:1": false, "/a": false, "a/": false, "a..b": false,
		"http://a": false, "a:" + strings.Repeat("x", 129): false, "-a": false,
	} {
		_, err := generators.Run(generators.RunOptions{Name: "x", Image: image, Replicas: 1})
		if (err == nil) != ok {
			t.Errorf("Run with the image %q: %v, want no error: %v", image, err, ok)
		}
	}
}

// FuzzRun shows that whatever is accepted carries what was asked for.
func FuzzRun(f *testing.F) {
	f.Add("nginx:1", "A=b", "a=b,c=d")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, image, env, labels string) {
		object, err := generators.Run(generators.RunOptions{Name: "x", Image: image, Replicas: 1, Restart: "Never", Env: []string{env}, Labels: labels})
		if err != nil {
			return
		}
		c := object.(*corev1.Pod).Spec.Containers[0]
		if c.Image != image || c.Env[0].Name+"="+c.Env[0].Value != env || len(object.GetLabels()) == 0 {
			t.Errorf("Run with image %q, env %q, labels %q has the container %+v, labels %v, want that image and variable, some labels",
				image, env, labels, c, object.GetLabels())
		}
	})
}
