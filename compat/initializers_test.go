package compat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/clientcmd"
)

// pluginOf returns a plugin that is made after its server.
type pluginOf struct {
	atomic.Pointer[initializers.Plugin]
}

func (p *pluginOf) Pending(ctx context.Context, in *admission.Request) ([]string, error) {
	return p.Load().Pending(ctx, in)
}

// serveInitializers starts a server with the plugin Initializers, and the plugin.
func serveInitializers(t *testing.T) *apiservertest.Server {
	t.Helper()
	plugin := &pluginOf{}
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithResources(kube.InitializerConfigurations()),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Initializers = plugin }))
	api, err := client.New(client.Config{Server: server.URL, Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	copied, err := informer.For(client.For(api, initializers.Configurations))
	if err != nil {
		t.Fatal(err)
	}
	known, err := initializers.New(initializers.Config{Configurations: copied})
	if err != nil {
		t.Fatal(err)
	}
	plugin.Store(known)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- copied.Run(ctx) }()
	go func() { ended <- known.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return server
}

// TestKubectlInitializers: kubectl and the program examples/initializer.
func TestKubectlInitializers(t *testing.T) {
	shows(t, "kubectl", "initializers (`examples/initializer`): apply and get of their configuration, run ends with two containers, create secret is refused in the initializer's words, get --raw of what is not initialized, patch, delete")
	server, stock := serveInitializers(t), filepath.Join(kubectl(t), "kubectl")
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "initializer")
	build := exec.Command("go", "build", "-o", program, "./examples/initializer")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := func(wants, stdin string, arguments ...string) {
		t.Helper()
		cmd := exec.CommandContext(bounded(t), stock, append([]string{"--kubeconfig", file}, arguments...)...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), wants) {
			t.Fatalf("kubectl %s: %q is not in\n%s", strings.Join(arguments, " "), wants, out)
		}
	}
	run("initializerconfiguration.admissionregistration.k8s.io/example created", "", "apply", "-f", "../examples/initializer/configuration.yaml")
	run("INITIALIZERS", "", "get", "initializerconfigurations")
	// No initializer runs yet: created objects stay hidden.
	begun := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"early"},"spec":{"containers":[{"name":"early","image":"nginx","ports":[{"containerPort":80}]}]}}`
	const pods = "/api/v1/namespaces/default/pods"
	for range 100 { // until the plugin has received its configuration
		run("", "", "delete", "pod", "early", "--ignore-not-found", "--now")
		run(`"name":"early"`, begun, "create", "--raw", pods+"?includeUninitialized=true", "-f", "-")
		out, _ := exec.Command(stock, "--kubeconfig", file, "get", "pods", "-o", "name").CombinedOutput()
		if !strings.Contains(string(out), "early") {
			break
		}
	}
	run(`pods "early" not found`, "", "get", "pod", "early")
	run("No resources found in default namespace.", "", "get", "pods")
	run(`"initializers":{"pending":[{"name":"sidecar.example.com"}]}`, "", "get", "--raw", pods+"/early?includeUninitialized=true")

	initializer := exec.Command(program, "--kubeconfig", file)
	initializer.Stderr = os.Stderr
	if err := initializer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = initializer.Process.Signal(syscall.SIGINT)
		if err := initializer.Wait(); err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
	run("pod/web created", "", "run", "web", "--image=nginx", "--port=80")
	run("web proxy", "", "get", "pod", "web", "-o", "jsonpath={.spec.containers[*].name}")
	run("pod/job created", "", "run", "job", "--image=busybox")
	run("busybox", "", "get", "pod", "job", "-o", "jsonpath={.spec.containers[*].image}")
	run("early proxy", "", "wait", "pod/early", "--for=create", "--timeout=10s", "-o", "jsonpath={.spec.containers[*].name}")
	run("failed to create secret secret weak: the password must have at least 8 characters", "", "create", "secret", "generic", "weak", "--from-literal=password=short")
	run("secret/strong created", "", "create", "secret", "generic", "strong", "--from-literal=password=long-enough")
	run("strong", "", "get", "secrets", "-o", "name")
	run("pod/web labeled", "", "label", "pod", "web", "a=b")
	run("deleted", "", "delete", "pod", "web", "--now")
}

// TestInformersAndInitializers: typed informers, in JSON and protobuf, do not receive an object
// before it is initialized. Then they receive it as a new one.
func TestInformersAndInitializers(t *testing.T) {
	shows(t, "client-go", "typed informers and clients without the field metadata.initializers beside initializers: objects are added when they are initialized")
	server := serveInitializers(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	clients := clientset(t, config)
	begin := func(name string) string {
		t.Helper()
		text, err := clients.CoreV1().RESTClient().Post().Namespace("default").Resource("configmaps").Param("includeUninitialized", "true").
			Body([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","initializers":{"pending":[{"name":"a.example.com"}]}},"data":{"value":"0"}}`)).
			SetHeader("Content-Type", "application/json").DoRaw(ctx)
		if err != nil {
			t.Fatal(err, string(text))
		}
		return string(text)
	}
	begin("before")
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		each := *config
		each.ContentType = media
		typed := clientset(t, &each)
		factory := informers.NewSharedInformerFactory(typed, 0)
		seen := make(chan change, 100) // more than the test makes
		if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(tellTo(seen)); err != nil {
			t.Fatal(err)
		}
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer cancel() // before Shutdown, which waits until the informers have stopped
		if result := factory.WaitForCacheSyncWithContext(ctx); result.Err != nil {
			t.Fatal(result.Err)
		}
		maps := typed.CoreV1().ConfigMaps("default")
		if text := begin("m"); !strings.Contains(text, `"initializers"`) {
			t.Errorf("begun as %s", text)
		}
		if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); err == nil {
			t.Error("a typed client got what is not initialized")
		}
		if _, err := maps.Update(ctx, configMap("m", map[string]string{"value": "1"}), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); err == nil {
			t.Error("an update without the field has initialized")
		}
		if _, err := maps.Patch(ctx, "m", types.StrategicMergePatchType, []byte(`{"metadata":{"initializers":null},"data":{"value":"2"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, want := receive(t, seen), (change{"add", "m", "2"}); got != want {
			t.Errorf("%s: told %v, want %v", media, got, want)
		}
		if got, err := maps.List(ctx, metav1.ListOptions{}); err != nil || len(got.Items) != 1 {
			t.Errorf("%s: listed %v, %v", media, got, err)
		}
		if err := maps.Delete(ctx, "m", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, want := receive(t, seen), (change{"delete", "m", "2"}); got != want {
			t.Errorf("%s: told %v, want %v", media, got, want)
		}
	}
}
