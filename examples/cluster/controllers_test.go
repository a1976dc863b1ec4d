//lint:file-ignore SA1019 clients still read Endpoints

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func newWeb(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = podOf("", "nginx").Spec.Containers
	return d
}

func newJob() *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "once"}}
	job.Spec.Template.Spec = podOf("", "busybox").Spec
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return job
}

func newReplicationController() *corev1.ReplicationController {
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}
	rc.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "old"}}, Spec: podOf("", "nginx").Spec}
	return rc
}

func newWebBudget() *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
}

func newWebService() *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	s.Spec.Selector = map[string]string{"app": "web"}
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	return s
}

// awaited waits until done, which says what is still missing.
func awaited(t *testing.T, what string, done func(context.Context) string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		missing := done(t.Context())
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %q: %s", patience, what, missing)
		}
	}
}

// mustCreate makes an object as the administrator.
func mustCreate[T client.Object](t *testing.T, to client.Resource[T], object T) T {
	t.Helper()
	made, err := to.Create(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// audited is a line of the audit log, as far as it matters here.
type audited struct {
	Stage, Verb string
	User        struct{ Username string }
	ObjectRef   struct{ Resource, Subresource, Namespace string }
	Status      struct{ Code int } `json:"responseStatus"`
}

// controls reports whether a user is a controller. Nodes may be refused for a moment,
// until the authorizer knows which pods are theirs.
func controls(username string) bool {
	return username == user.ControllerManager || strings.HasPrefix(username, user.ServiceAccountPrefix+"kube-system:")
}

// readAudit returns who did what, as "user verb resource", and what controllers
// were refused.
func readAudit(t *testing.T, path string) (did map[string]bool, refused []string) {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log = log[:bytes.LastIndexByte(log, '\n')+1] // without the line that is being written
	did = map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(log)); lines.Scan(); {
		var a audited
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("Unmarshal of the audit log's line %s: %v", lines.Text(), err)
		}
		what := a.ObjectRef.Resource
		if a.ObjectRef.Subresource != "" {
			what += "/" + a.ObjectRef.Subresource
		}
		line := strings.Join([]string{a.User.Username, a.Verb, what}, " ")
		switch {
		case a.Stage != "ResponseComplete":
		case a.Status.Code == 403 && controls(a.User.Username) && !terminating(lines.Text()):
			refused = append(refused, line)
		case a.Status.Code < 400:
			did[line] = true
		}
	}
	slices.Sort(refused)
	return did, slices.Compact(refused)
}

// terminating reports whether a write was refused because its namespace is being
// deleted, which controllers learn late.
func terminating(line string) bool { return strings.Contains(line, "is being terminated") }

// TestControllersActAsThemselves has each controller do its work under RBAC as a
// user of its own, with the rights that Kubernetes gives it and no more.
func TestControllersActAsThemselves(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	cluster := start(t, dir, "--storage", "memory", "--audit-log-path", log, "--audit-policy-file",
		written(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"))
	api := cluster.client(t)
	deployed := mustCreate(t, typed.Deployments(api), newWeb(2))
	mustCreate(t, typed.Services(api), newWebService())
	awaited(t, "endpoints", func(ctx context.Context) string {
		e, err := typed.Endpoints(api).Get(ctx, "default", "web")
		if err != nil {
			return err.Error()
		}
		if len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 2 || e.Subsets[0].Ports[0].Port != 8080 {
			return "subsets are not those of two pods"
		}
		return ""
	})
	awaited(t, "endpoint slices", func(ctx context.Context) string {
		list, _, err := typed.EndpointSlices(api).List(ctx, "default", metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		if err != nil {
			return err.Error()
		}
		if len(list) != 1 || len(list[0].Endpoints) != 2 || !*list[0].Endpoints[0].Conditions.Ready || *list[0].Endpoints[0].NodeName != "node-1" {
			return "no slice of two pods"
		}
		return ""
	})
	mustCreate(t, typed.Jobs(api), newJob())
	mustCreate(t, typed.ReplicationControllers(api), newReplicationController())
	budget := mustCreate(t, typed.PodDisruptionBudgets(api), newWebBudget())
	awaited(t, "budget", func(ctx context.Context) string {
		b, err := typed.PodDisruptionBudgets(api).Get(ctx, "default", budget.Name)
		if err != nil || b.Status.ExpectedPods != 2 || b.Status.DisruptionsAllowed != 1 {
			return "not counted: " + text(err)
		}
		return ""
	})
	awaited(t, "replication controller", func(ctx context.Context) string {
		rc, err := typed.ReplicationControllers(api).Get(ctx, "default", "old")
		if err != nil || rc.Status.AvailableReplicas != 1 {
			return "no pod: " + text(err)
		}
		return ""
	})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}}
	quota.Spec.Hard = corev1.ResourceList{"count/deployments.apps": resource.MustParse("5")}
	mustCreate(t, typed.ResourceQuotas(api), quota)
	awaited(t, "quota", func(ctx context.Context) string {
		q, err := typed.ResourceQuotas(api).Get(ctx, "default", "q")
		if err != nil {
			return err.Error()
		}
		if used := q.Status.Used["count/deployments.apps"]; used.Value() != 1 {
			return "used " + used.String()
		}
		return ""
	})
	mustCreate(t, typed.Namespaces(api), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short"}})
	awaited(t, "account of a namespace", func(ctx context.Context) string {
		_, err := typed.ServiceAccounts(api).Get(ctx, "short", "default")
		if err == nil {
			_, err = typed.ConfigMaps(api).Get(ctx, "short", "kube-root-ca.crt")
		}
		return text(err)
	})
	remove := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	remove(typed.Namespaces(api).Delete(t.Context(), "", "short", metav1.DeleteOptions{}))
	remove(typed.Services(api).Delete(t.Context(), "default", "web", metav1.DeleteOptions{}))
	remove(typed.Deployments(api).Delete(t.Context(), "default", "web", metav1.DeleteOptions{}))
	awaited(t, "all that was made is gone", func(ctx context.Context) string {
		_, err := typed.Namespaces(api).Get(ctx, "", "short")
		_, errEndpoints := typed.Endpoints(api).Get(ctx, "default", "web")
		sets, _, errSets := typed.ReplicaSets(api).List(ctx, "default", metav1.ListOptions{})
		slices, _, errSlices := typed.EndpointSlices(api).List(ctx, "default", metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(errEndpoints) || errSets != nil || errSlices != nil || len(sets)+len(slices) > 0 {
			return "something is left"
		}
		return ""
	})
	awaited(t, "the event of the deployment", func(ctx context.Context) string {
		list, _, err := typed.Events(api).List(ctx, "default", metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(deployed.UID)})
		if err != nil || len(list) == 0 {
			return "no event: " + text(err)
		}
		if list[0].Source.Component != "deployment-controller" {
			return "from " + list[0].Source.Component
		}
		return ""
	})
	api.Close()
	cluster.stop()

	did, refused := readAudit(t, log)
	if len(refused) > 0 {
		t.Errorf("refused:\n%s", strings.Join(refused, "\n"))
	}
	for _, want := range []string{
		"deployment-controller create replicasets", "deployment-controller update deployments/status", "deployment-controller create events",
		"replicaset-controller create pods", "replicaset-controller update replicasets/status",
		"endpointslice-controller create endpointslices", "endpoint-controller create endpoints", "endpoint-controller delete endpoints",
		"replication-controller create pods", "replication-controller update replicationcontrollers/status",
		"disruption-controller update poddisruptionbudgets/status",
		"job-controller create pods", "generic-garbage-collector delete replicasets", "generic-garbage-collector delete endpointslices",
		"service-account-controller create serviceaccounts", "root-ca-cert-publisher create configmaps",
		"namespace-controller deletecollection configmaps", "namespace-controller update namespaces/finalize",
		"resourcequota-controller update resourcequotas/status",
	} {
		if !did["system:serviceaccount:kube-system:"+want] {
			t.Errorf("nobody did: %s", want)
		}
	}
	for line := range did {
		if verb := strings.Fields(line)[1]; strings.HasPrefix(line, "system:kube-controller-manager ") && !slices.Contains([]string{"get", "list", "watch"}, verb) {
			t.Errorf("done by the manager itself: %s", line)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestTokenInASecret has a secret ask for a token of an account, and uses the token until the
// secret is deleted.
func TestTokenInASecret(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0")
	api := cluster.client(t)
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken,
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}}
	mustCreate(t, typed.Secrets(api), secret)
	awaited(t, "token", func(ctx context.Context) string {
		var err error
		if secret, err = typed.Secrets(api).Get(ctx, "default", "mine"); err != nil || len(secret.Data["token"]) == 0 {
			return "none yet " + text(err)
		}
		return ""
	})
	if string(secret.Data["namespace"]) != "default" || !bytes.HasPrefix(secret.Data["ca.crt"], []byte("-----BEGIN CERTIFICATE")) {
		t.Error("the namespace or the authority is missing")
	}
	bearer := visitor{header: "Bearer " + string(secret.Data["token"])}
	if code, who := bearer.get(t, cluster, "/api/v1"); code != 200 || who != "system:serviceaccount:default:default" {
		t.Errorf("with the token: %d, %s", code, who)
	}
	if err := typed.Secrets(api).Delete(t.Context(), "default", "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaited(t, "the token ends", func(context.Context) string {
		if code, _ := bearer.get(t, cluster, "/api/v1"); code != 401 {
			return "it is believed still"
		}
		return ""
	})
}

// TestChosenControllers has some controllers run and others not.
func TestChosenControllers(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0", "--controllers", "*,-replicaset")
	api := cluster.client(t)
	mustCreate(t, typed.Deployments(api), newWeb(1))
	awaited(t, "replica set", func(ctx context.Context) string {
		sets, _, err := typed.ReplicaSets(api).List(ctx, "default", metav1.ListOptions{})
		if err != nil || len(sets) != 1 {
			return "none " + text(err)
		}
		return ""
	})
	// By the time that the pod of a job is there, those of the set would be.
	mustCreate(t, typed.Jobs(api), newJob())
	awaited(t, "pods", func(ctx context.Context) string {
		pods, _, err := typed.Pods(api).List(ctx, "default", metav1.ListOptions{})
		if err != nil || len(pods) == 0 {
			return "none " + text(err)
		}
		if owner := pods[0].OwnerReferences[0]; len(pods) != 1 || owner.Kind != "Job" {
			t.Errorf("%d pods, one of a %s", len(pods), owner.Kind)
		}
		return ""
	})
	for arguments, want := range map[string]string{
		"--controllers=statefulset":             "known controllers",
		"--leader-elect-lease-duration=5s":      "longer than",
		"--leader-elect-renew-deadline=1s":      "longer than",
		"--controllers=*,-no-such-thing-at-all": "no-such-thing-at-all",
	} {
		if _, err := parse(arguments); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q) = %v, want an error with %q", arguments, err, want)
		}
	}
}

// TestOneClusterLeads has two clusters on one store, of which the first has the
// lease: it alone makes anything, until it ends and the other does.
func TestOneClusterLeads(t *testing.T) {
	store, etcd := externalEtcd(t)
	t.Cleanup(store.Close) // after those that use it
	policy := written(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n")
	join := func() (*running, *client.Client, string) {
		dir := t.TempDir()
		log := filepath.Join(dir, "audit.log")
		c := start(t, dir, append(slices.Clip(etcd), "--nodes", "0", "--leader-elect",
			"--audit-log-path", log, "--audit-policy-file", policy)...)
		return c, c.client(t), log
	}
	// made creates a deployment by a cluster, and waits for the set that one of them
	// makes of it.
	made := func(api *client.Client, name string) {
		t.Helper()
		d := newWeb(0)
		d.Name = name
		mustCreate(t, typed.Deployments(api), d)
		awaited(t, "the set of "+name, func(ctx context.Context) string {
			sets, _, err := typed.ReplicaSets(api).List(ctx, "default", metav1.ListOptions{})
			if err != nil || !slices.ContainsFunc(sets, func(s *appsv1.ReplicaSet) bool { return strings.HasPrefix(s.Name, name+"-") }) {
				return "none " + text(err)
			}
			return ""
		})
	}
	const making = "system:serviceaccount:kube-system:deployment-controller create replicasets"
	one, api1, log1 := join()
	made(api1, "first")
	_, api2, log2 := join()
	made(api2, "second")
	before, err := typed.Leases(api2).Get(t.Context(), "kube-system", "kube-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	awaited(t, "that the leader made sets is written down", func(context.Context) string {
		if did, _ := readAudit(t, log1); !did[making] {
			return "it made none"
		}
		return ""
	})
	if did, _ := readAudit(t, log2); did[making] {
		t.Error("who does not lead made sets")
	}
	api1.Close()
	one.stop()
	made(api2, "third")
	after, err := typed.Leases(api2).Get(t.Context(), "kube-system", "kube-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	if *before.Spec.HolderIdentity == *after.Spec.HolderIdentity || *after.Spec.LeaseTransitions <= *before.Spec.LeaseTransitions {
		t.Errorf("the lease went from %s to %s", *before.Spec.HolderIdentity, *after.Spec.HolderIdentity)
	}
	awaited(t, "that who leads now made a set is written down", func(context.Context) string {
		did, refused := readAudit(t, log2)
		if len(refused) > 0 {
			t.Fatalf("it was refused %v", refused)
		}
		if !did[making] {
			return "it made no sets"
		}
		return ""
	})
}
