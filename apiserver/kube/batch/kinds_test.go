package batch_test

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube/batch"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestKinds(t *testing.T) { kindtest.Run(t, batch.Resources()) }

// TestTemplateOfSuspended: what a queue decides, and the metadata of the template, may change while a job is suspended and has
// no pods, and nothing else may.
func TestTemplateOfSuspended(t *testing.T) {
	jobs := batch.Jobs()
	const labels = `labels: {job-name: pi, batch.kubernetes.io/job-name: pi, controller-uid: u1, batch.kubernetes.io/controller-uid: u1}`
	job := func(suspend, status, metadata, spec string) *batchv1.Job {
		obj := kindtest.Decode(t, func() runtime.Object { return jobs.New() }, `
metadata: {name: pi, namespace: default, uid: u1, resourceVersion: "1"}
spec: {suspend: `+suspend+`, parallelism: 1, completions: 1, backoffLimit: 1, completionMode: NonIndexed, podReplacementPolicy: TerminatingOrFailed, selector: {matchLabels: {batch.kubernetes.io/controller-uid: u1}},
  template: {metadata: {`+labels+metadata+`}, spec: {restartPolicy: Never, `+spec+`}}}
status: {`+status+`}`)
		jobs.Strategy.Default(obj)
		return obj.(*batchv1.Job)
	}
	const plain = `containers: [{name: pi, image: perl}], initContainers: [{name: i, image: perl}]`
	const limits = `containers: [{name: pi, image: perl, resources: {limits: {cpu: "1"}}}], initContainers: [{name: i, image: perl, resources: {limits: {cpu: "1"}}}]`
	for _, c := range []struct{ name, suspend, status, metadata, spec, wrong string }{
		{"finalizers", "true", "", ", finalizers: [example.com/a]", plain, ""},
		{"placement", "true", "", "", plain + ", nodeSelector: {a: b}", ""},
		{"resources", "true", "", "", limits, ""},
		{"image", "true", "", "", strings.Replace(plain, "perl", "other", 1), "spec.template.spec"},
		{"not suspended", "false", "", ", finalizers: [example.com/a]", plain, "spec.template"},
		{"with pods", "true", "active: 1", "", limits, "spec.template"},
	} {
		old, now := job(c.suspend, c.status, "", plain), job(c.suspend, c.status, c.metadata, c.spec)
		errs := jobs.Strategy.ValidateUpdate(t.Context(), now, old)
		if c.wrong == "" && len(errs) > 0 || c.wrong != "" && (len(errs) != 1 || errs[0].Field != c.wrong) {
			t.Errorf("%s: ValidateUpdate() = %.300v, want an error of %q", c.name, errs, c.wrong)
		}
	}
}
