package compat

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// serveProgram runs a program in dir until the test ends or stop is called. It returns after the
// first line of output.
func serveProgram(t *testing.T, dir, program string, arguments ...string) (stop func()) {
	t.Helper()
	server := exec.Command(program, arguments...)
	server.Dir, server.Stderr = dir, os.Stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	running := true
	stop = func() {
		if !running {
			return
		}
		running = false
		_ = server.Process.Signal(syscall.SIGINT)
		if err := server.Wait(); err != nil {
			t.Errorf("%s ended with %v", filepath.Base(program), err)
		}
	}
	t.Cleanup(stop)
	reader := bufio.NewReader(stdout)
	if line, err := reader.ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	go io.Copy(io.Discard, reader) //nolint:errcheck // ends with the program
	return stop
}

// TestKubectlAggregation: kubectl uses a group of another API server, examples/widgets, through the
// cluster's.
func TestKubectlAggregation(t *testing.T) {
	shows(t, "kubectl", "an API group of another server (`examples/widgets` behind the cluster's API server, by an APIService): api-resources, api-versions, "+
		"explain, create, get with its columns, -w, patch, wait, apply, delete; get, describe and wait for apiservices; 503 while it is away")
	dir := t.TempDir()
	widgets := filepath.Join(dir, "served")
	build := exec.Command("go", "build", "-o", widgets, "./examples/widgets")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	serveProgram(t, dir, filepath.Join(programs, "cluster"), "--data-dir", "data", "--listen", "127.0.0.1:0", "--runtime", "fake", "--storage", "memory", "--nodes", "0", "--metrics-server=false")
	run := func(stdin, arguments string) string {
		cmd := exec.Command(filepath.Join(kubectl(t), "kubectl"), append([]string{"--kubeconfig", "data/admin.kubeconfig"}, strings.Fields(arguments)...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, _ := cmd.CombinedOutput() // some steps must fail
		return string(out)
	}
	steps := func(steps [][3]string) {
		t.Helper()
		for _, step := range steps {
			if out := run(step[0], step[1]); !strings.Contains(out, step[2]) {
				t.Errorf("kubectl %s:\n%s\nwant %s", step[1], out, step[2])
			}
		}
	}
	steps([][3]string{
		{"", "get apiservices", "NAME                              SERVICE   AVAILABLE   AGE\nv1.                               Local     True "},
		{"", "get apiservice v1.apps -o jsonpath={.metadata.labels}{.status.conditions[0].reason}", `{"kube-aggregator.kubernetes.io/automanaged":"onstart"}Local`},
		{"", "get rolebindings,roles -n kube-system", "role.rbac.authorization.k8s.io/extension-apiserver-authentication-reader"},
	})

	front := run("", "get configmap -n kube-system extension-apiserver-authentication -o jsonpath={.data.requestheader-client-ca-file}")
	if err := os.WriteFile(filepath.Join(dir, "front.crt"), []byte(front), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := serveProgram(t, dir, widgets, "--address", "localhost:0", "--front-proxy-ca", "front.crt")
	registration := registerWidgets(t, dir)
	red := "{apiVersion: example.com/v1, kind: Widget, metadata: {name: one}, color: red}"
	steps([][3]string{
		{registration, "apply -f -", "apiservice.apiregistration.k8s.io/v1.example.com created"},
		{"", "wait apiservice v1.example.com --for=condition=Available --timeout=10s", "condition met"},
		{"", "get apiservice v1.example.com", "NAME             SERVICE           AVAILABLE   AGE\nv1.example.com   default/widgets   True "},
		{"", "describe apiservice v1.example.com", "all checks passed"},
		{"", "api-resources --api-group=example.com", "widgets   wd           example.com/v1   true         Widget"},
		{"", "api-versions", "example.com/v1\n"},
		{"", "explain widget", "color\t<string> -required-"},
		{red, "create -f -", "widget.example.com/one created"},
		{"", "wait wd/one --for=jsonpath={.painted}=red --timeout=10s", "condition met"},
		{"", "get widgets", "NAME   COLOR   PAINTED\none    red     red\n"},
		{"", "get widgets -w --request-timeout=1s", "one    red     red\n"},
		{"", "patch widget one --type=merge -p {\"color\":\"blue\"}", "patched"},
		{"", "wait wd/one --for=jsonpath={.painted}=blue --timeout=10s", "condition met"},
		{strings.ReplaceAll(red, "red", "green"), "apply --server-side --force-conflicts -f -", "serverside-applied"},
		{strings.ReplaceAll(red, "red", "mauve"), "apply -f -", `supported values: "blue", "green", "red"`},
		{"", "get widgets --as=jane", `widgets.example.com is forbidden: User "jane" cannot list resource "widgets"`},
		{"", "delete widget one", "deleted"},
	})
	stop()
	steps([][3]string{
		{"", "annotate service widgets looked=again", "annotated"},
		{"", "wait apiservice v1.example.com --for=condition=Available=False --timeout=20s", "condition met"},
		{"", "get apiservice v1.example.com", "default/widgets   False (FailedDiscoveryCheck) "},
		{"", "get widgets.v1.example.com", "the server is currently unable to handle the request"},
		{"", "get namespaces", "default "},
		{"", "delete apiservice v1.example.com", "deleted"},
		{"", "get widgets", "the server could not find the requested resource"}, // from kubectl's cached discovery
	})
}

// registerWidgets registers the widgets program in dir with a cluster.
func registerWidgets(t *testing.T, dir string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(filepath.Join(dir, "widgets/kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cluster := config.Clusters["widgets"]
	at, err := url.Parse(cluster.Server)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: widgets}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.example.com}
spec:
  group: example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  caBundle: %s
  service: {namespace: default, name: widgets, port: %s}
`, base64.StdEncoding.EncodeToString(cluster.CertificateAuthorityData), at.Port())
}
