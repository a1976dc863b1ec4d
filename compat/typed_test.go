package compat

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// TestTyped: the typed clients, in both encodings.
func TestTyped(t *testing.T) {
	shows(t, "client-go", "typed clients in JSON and in protobuf: create, get, list in pages, update, status, scale, patch (JSON, merge, strategic), delete with preconditions, deletecollection, watch, dry run")
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(media, func(t *testing.T) {
			t.Parallel()
			config := serve(t)
			config.ContentType, config.AcceptContentTypes = media, media
			clients := clientset(t, config)
			t.Run("write", func(t *testing.T) { testWrite(t, clients) })
			t.Run("patch", func(t *testing.T) { testPatch(t, clients) })
			t.Run("pages", func(t *testing.T) { testPages(t, clients) })
			t.Run("watch", func(t *testing.T) { testWatch(t, clients) })
			t.Run("delete", func(t *testing.T) { testDelete(t, clients) })
		})
	}
}

func testWrite(t *testing.T, clients *kubernetes.Clientset) {
	ctx, deployments := bounded(t), clients.AppsV1().Deployments("default")
	dry, err := deployments.Create(ctx, deployment("web", 2), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.UID == "" {
		t.Fatalf("dry run: %+v %v", dry, err)
	}
	made, err := deployments.Create(ctx, deployment("web", 2), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.UID == "" || made.Generation != 1 || made.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("created %+v", made)
	}
	if _, err := deployments.Create(ctx, deployment("web", 2), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create again: %v", err)
	}
	stale := made.DeepCopy()
	made.Spec.Paused = true
	made, err = deployments.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil || made.Generation != 2 {
		t.Errorf("update: generation %d, %v", made.Generation, err)
	}
	if _, err := deployments.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update from an old revision: %v", err)
	}
	made.Status.ObservedGeneration = 2
	made.Spec.Paused = false // this request must not change it
	if made, err = deployments.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil || !made.Spec.Paused || made.Status.ObservedGeneration != 2 {
		t.Errorf("update of the status: %+v %v", made, err)
	}
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 2 || scale.Status.Selector != "app=web" {
		t.Fatalf("scale: %+v %v", scale, err)
	}
	scale.Spec.Replicas = 5
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if got, err := deployments.Get(ctx, "web", metav1.GetOptions{}); err != nil || *got.Spec.Replicas != 5 {
		t.Errorf("after scaling: %+v %v", got, err)
	}
	bad := deployment("bad", 1)
	bad.Spec.Template.Spec.Containers[0].Image = ""
	_, err = deployments.Create(ctx, bad, metav1.CreateOptions{})
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !asStatus(err, &status) || status.Status().Details.Causes[0].Field != "spec.template.spec.containers[0].image" {
		t.Errorf("create without an image: %v", err)
	}
}

func asStatus(err error, status *apierrors.APIStatus) bool {
	s, ok := err.(apierrors.APIStatus)
	*status = s
	return ok && s.Status().Details != nil && len(s.Status().Details.Causes) > 0
}

func testPatch(t *testing.T, clients *kubernetes.Clientset) {
	ctx, deployments := bounded(t), clients.AppsV1().Deployments("default")
	if _, err := deployments.Create(ctx, deployment("patched", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, patch := range []struct {
		kind types.PatchType
		body string
		done func(*appsv1.Deployment) bool
	}{
		{types.JSONPatchType, `[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/replicas","value":3}]`,
			func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 }},
		{types.MergePatchType, `{"metadata":{"labels":{"more":"yes"}},"spec":{"replicas":null}}`,
			func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1 && d.Labels["more"] == "yes" }},
		{types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}`,
			func(d *appsv1.Deployment) bool { return len(d.Spec.Template.Spec.Containers) == 2 }},
	} {
		d, err := deployments.Patch(ctx, "patched", patch.kind, []byte(patch.body), metav1.PatchOptions{})
		if err != nil || !patch.done(d) {
			t.Errorf("Patch(%s, %s) = %+v, %v, want the deployment with this change", patch.kind, patch.body, d, err)
		}
	}
	_, err := deployments.Patch(ctx, "patched", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":7}]`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a test that fails: %v", err)
	}
}

func testPages(t *testing.T, clients *kubernetes.Clientset) {
	ctx, maps := bounded(t), clients.CoreV1().ConfigMaps("paged")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		object := configMap(name, nil)
		object.Namespace, object.Labels = "paged", map[string]string{"vowel": map[bool]string{true: "yes", false: "no"}[name == "a" || name == "e"]}
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var names string
	var next string
	for pages := 0; ; pages++ {
		list, err := maps.List(ctx, metav1.ListOptions{Limit: 2, Continue: next})
		if err != nil || pages > 3 {
			t.Fatal(pages, err)
		}
		for _, item := range list.Items {
			names += item.Name
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	if names != "abcde" {
		t.Errorf("listed in pages: %s", names)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "vowel=yes", FieldSelector: "metadata.name!=a"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "e" {
		t.Errorf("selected: %+v %v", list, err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "vowel=no"}); err != nil {
		t.Error(err)
	}
	if list, err := maps.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
		t.Errorf("after deletecollection: %+v %v", list, err)
	}
}

func testWatch(t *testing.T, clients *kubernetes.Clientset) {
	ctx, maps := bounded(t), clients.CoreV1().ConfigMaps("default")
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "watched"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	object := configMap("seen", map[string]string{"k": "1"})
	if object, err = maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		labels map[string]string
		value  string
		want   watch.EventType
	}{
		{map[string]string{"watched": ""}, "2", watch.Added},
		{map[string]string{"watched": ""}, "3", watch.Modified},
		{nil, "4", watch.Deleted},
	} {
		object.Labels, object.Data = step.labels, map[string]string{"k": step.value}
		if object, err = maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		event := receive(t, w.ResultChan())
		got, ok := event.Object.(*corev1.ConfigMap)
		if event.Type != step.want || !ok || got.Name != "seen" || got.ResourceVersion != object.ResourceVersion {
			t.Errorf("%s %+v, want %s", event.Type, event.Object, step.want)
		}
	}
}

func testDelete(t *testing.T, clients *kubernetes.Clientset) {
	ctx, maps := bounded(t), clients.CoreV1().ConfigMaps("default")
	object := configMap("kept", nil)
	object.Finalizers = []string{"example.com/not-yet"}
	object, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := types.UID("another")
	if err := maps.Delete(ctx, "kept", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}); !apierrors.IsConflict(err) {
		t.Errorf("delete of another: %v", err)
	}
	if err := maps.Delete(ctx, "kept", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(object.UID))}); err != nil {
		t.Fatal(err)
	}
	// The finalizer keeps the object until its owner is done; other clients may have written it.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := maps.Get(ctx, "kept", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if object.DeletionTimestamp == nil {
			t.Error("no deletion timestamp")
		}
		object.Finalizers = nil
		_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(ctx, "kept", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer: %v", err)
	}
}

// TestRetryOnConflict: many clients write one object, each with the stock retry; no change is lost.
func TestRetryOnConflict(t *testing.T) {
	shows(t, "client-go", "retry on conflict: many writers of one object, no change lost")
	clients := clientset(t, serve(t))
	ctx, maps := bounded(t), clients.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, configMap("counter", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const writers = 8
	done := make(chan error, writers)
	for i := range writers {
		go func() {
			patient := retry.DefaultRetry
			patient.Steps = 50
			done <- retry.RetryOnConflict(patient, func() error {
				object, err := maps.Get(ctx, "counter", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if object.Data == nil {
					object.Data = map[string]string{}
				}
				object.Data[string(rune('a'+i))] = "here"
				_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
				return err
			})
		}()
	}
	for range writers {
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	}
	object, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil || len(object.Data) != writers {
		t.Errorf("%d of %d writes are left: %v", len(object.Data), writers, err)
	}
}
