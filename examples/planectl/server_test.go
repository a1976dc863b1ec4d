package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
)

// TestAgainstAServer walks an object through its life on a real API server.
func TestAgainstAServer(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAdmission(warns{}))
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result {
		t.Helper()
		var out, err bytes.Buffer
		code := execute(context.Background(), append([]string{"--kubeconfig=" + path}, args...), environment{
			Out: &out, Err: &err, Getenv: func(string) string { return "" }})
		return result{code, out.String(), err.String()}
	}
	check := func(got, want result) {
		t.Helper()
		if got != want {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
	check(run("run", "nginx", "--image=nginx", "--replicas=3"), result{0, "deployment.apps/nginx created\n", ""})
	check(run("run", "nginx", "--image=nginx"), result{1, "", "Error from server (AlreadyExists): deployments.apps \"nginx\" already exists\n"})
	if got := run("run", "nginx_1", "--image=nginx", "--restart=Never"); got.code != 1 || strings.Count(got.err, "\n* ") != 2 ||
		!strings.HasPrefix(got.err, "The Pod \"nginx_1\" is invalid: \n* metadata.name: Invalid value: ") {
		t.Errorf("run(run nginx_1 --restart=Never) = %+v, want code 1 and two reasons why the Pod is invalid, metadata.name first", got)
	}
	if got := run("run", "x", "--image=nginx", "--restart=Never", "--labels=a=b/c"); got.code != 1 ||
		!strings.HasPrefix(got.err, "The Pod \"x\" is invalid: metadata.labels: Invalid value: ") {
		t.Errorf("run(run x --restart=Never --labels=a=b/c) = %+v, want code 1 and one reason why the Pod is invalid, metadata.labels", got)
	}
	check(run("run", "pi", "--image=perl", "--restart=OnFailure"), result{0, "job.batch/pi created\n", ""})
	check(run("run", "shell", "--image=busybox", "--restart=Never"), result{0, "pod/shell created\n", ""})
	check(run("run", "doubtful", "--image=busybox", "--restart=Never"), result{0, "pod/doubtful created\n", "Warning: nothing acts on this\nWarning: nor on that\n"})
	check(run("delete", "pod", "doubtful", "--now"), result{0, "pod \"doubtful\" deleted from default namespace\n", ""})
	check(run("get", "deploy/nginx", "pod/shell", "-o", "name"), result{0, "deployment.apps/nginx\npod/shell\n", ""})
	if got := run("get", "deploy", "-o", "wide"); !strings.HasPrefix(got.out, "NAME    READY   UP-TO-DATE   AVAILABLE   AGE") || !strings.Contains(got.out, "nginx   0/3") {
		t.Errorf("run(get deploy -o wide) = %+v, want the columns NAME, READY, UP-TO-DATE, AVAILABLE, AGE first and nginx with 0/3", got)
	}
	check(run("scale", "deploy/nginx", "--replicas=5"), result{0, "deployment.apps/nginx scaled\n", ""})
	if got := run("get", "deploy/nginx", "-o", "yaml"); !strings.Contains(got.out, "\n  replicas: 5\n") {
		t.Errorf("run(get deploy/nginx -o yaml) = %+v, want replicas: 5 in the output", got)
	}
	check(run("autoscale", "deploy/nginx", "--min=2", "--max=5", "--cpu=70%", "--dry-run=server"),
		result{0, "horizontalpodautoscaler.autoscaling/nginx autoscaled (server dry run)\n", ""})
	check(run("autoscale", "deploy/nginx", "--min=2", "--max=5", "--cpu=70%"), result{0, "horizontalpodautoscaler.autoscaling/nginx autoscaled\n", ""})
	check(run("autoscale", "deploy/nginx", "--max=5"), result{1, "", "Error from server (AlreadyExists): horizontalpodautoscalers.autoscaling \"nginx\" already exists\n"})
	check(run("autoscale", "deploy/nginx", "--name=x", "--max=5", "--cpu=0%"), result{1, "",
		"The HorizontalPodAutoscaler \"x\" is invalid: spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0\n"})
	check(run("delete", "hpa", "nginx"), result{0, "horizontalpodautoscaler.autoscaling \"nginx\" deleted from default namespace\n", ""})
	check(run("delete", "pod", "shell", "--now"), result{0, "pod \"shell\" deleted from default namespace\n", ""})
	check(run("delete", "deployments.apps", "nginx"), result{0, "deployment.apps \"nginx\" deleted from default namespace\n", ""})
	check(run("get", "pods,deploy"), result{0, "", "No resources found in default namespace.\n"})
	check(run("get", "pod", "shell"), result{1, "", "Error from server (NotFound): pods \"shell\" not found\n"})
}

// warns warns of pods that are named so, twice and with a byte that terminals act on.
type warns struct{}

func (warns) Mutate(_ context.Context, r *admission.Request) error {
	if r.Name == "doubtful" && r.Operation == admission.Create {
		r.Warn("nothing acts on \u009bthis")
		r.Warn("nor on that")
	}
	return nil
}

func (warns) Validate(context.Context, *admission.Request) error { return nil }
