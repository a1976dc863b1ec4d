package controllers_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/endpoints"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// signs has secrets request tokens of accounts, one of which is deleted and created again.
func signs(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newTokenWorld()
	asked, leaving := map[string]bool{}, "" // guarded by the lock of the api
	w.secrets.check = func(old, new *corev1.Secret) {
		switch {
		case old == nil && !asked[new.Name]:
			t.Errorf("%s was made", new.Name)
		case new == nil && old.Name != leaving:
			account := w.accounts.objects["default/"+old.Annotations[corev1.ServiceAccountNameKey]]
			if account != nil && string(account.UID) == old.Annotations[corev1.ServiceAccountUIDKey] {
				t.Errorf("the secret %s was deleted, and its account is there", old.Name)
			}
		}
	}
	ask := func(name, account string) {
		w.mu.Lock()
		asked[name] = true
		w.mu.Unlock()
		put(w.secrets, newTokenSecret(name, account))
	}
	put(w.accounts, newAccount("builder"))
	put(w.accounts, newAccount("other"))
	ask("one", "builder")
	ask("stays", "other")
	return stage{
		api: w.api,
		run: func(l lag) *process { return w.launch(t, l) },
		steps: []func(){
			func() { ask("two", "builder"); ask("leaves", "other") },
			func() {
				w.mu.Lock()
				leaving = "leaves"
				w.mu.Unlock()
				removeOutside(t, w.secrets, "default", "leaves")
				removeOutside(t, w.accounts, "default", "builder")
			},
			func() { put(w.accounts, newAccount("builder")); ask("three", "builder") },
		},
		wanted: func() {
			w.converged(t)
			for _, name := range []string{"stays", "three"} {
				if _, err := w.secrets.Get(t.Context(), "default", name); err != nil {
					t.Error(err)
				}
			}
			if _, err := w.secrets.Get(t.Context(), "default", "leaves"); err == nil {
				t.Error("a secret that was deleted is back")
			}
		},
	}
}

// expires has Jobs end, of which one is given more time when its own is almost
// up, and one has no end.
func expires(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newWorld()
	for _, name := range []string{"completes", "fails", "prolonged", "stays", "lives"} {
		job := newJob(1, 1)
		if job.Name = name; name != "stays" {
			job.Spec.TTLSecondsAfterFinished = new(int32(30))
		}
		must[*batchv1.Job](t)(w.jobs.Create(outside(), job))
	}
	ended := map[string]time.Time{} // written by steps only, under the lock of the api
	w.jobs.check = func(old, new *batchv1.Job) {
		if old == nil {
			t.Errorf("%s was made", new.Name)
			return
		}
		if new != nil && new.DeletionTimestamp == nil || old.DeletionTimestamp != nil {
			return
		}
		end, ok := ended[old.Name]
		if !ok || time.Since(end.Truncate(time.Second)) < time.Duration(*old.Spec.TTLSecondsAfterFinished)*time.Second {
			t.Errorf("%s is deleted %s after its end", old.Name, time.Since(end))
		}
	}
	end := func(name string, kind batchv1.JobConditionType) {
		w.mu.Lock()
		ended[name] = time.Now()
		w.mu.Unlock()
		w.jobs.alter(t, "default/"+name, finish(kind))
	}
	return stage{
		api: w.api,
		run: func(l lag) *process { return w.runTTL(t, l) },
		steps: []func(){
			func() { end("completes", batchv1.JobComplete); end("prolonged", batchv1.JobComplete) },
			func() {
				// The cache of the controller may not show that.
				time.Sleep(time.Until(ended["prolonged"].Truncate(time.Second).Add(29 * time.Second)))
				w.jobs.alter(t, "default/prolonged", func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = new(int32(300)) })
			},
			func() { end("fails", batchv1.JobFailed); end("stays", batchv1.JobComplete) },
		},
		wanted: func() {
			for _, job := range w.jobs.list() {
				if gone := job.Name != "stays" && job.Name != "lives"; gone != (job.DeletionTimestamp != nil) {
					t.Errorf("%s: deleted %v", job.Name, job.DeletionTimestamp)
				}
			}
		},
	}
}

// slicesAlone is points with only the controller of slices.
func slicesAlone(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w, st := pointed(t, ctx, r)
	w.slices.check = func(_, _ *discoveryv1.EndpointSlice) {
		count := map[string]int{}
		for _, s := range w.slices.objects {
			count[s.Labels[discoveryv1.LabelServiceName]]++
		}
		if count["one"] > 2 || count["two"] > 1 || count["three"] > 1 { // five endpoints at most, and one
			t.Errorf("there are slices %v", count)
		}
	}
	// Pods come sooner than copies show the slice that was made before.
	st.steps = append(st.steps, func() {
		put(w.services, newService("three", "c"))
		for number := range 3 {
			time.Sleep(time.Second)
			put(w.pods, newEndpointPod(10+number, "c", 80))
		}
	})
	st.run = single(t, w.api, func(ctx context.Context, l lag) (*endpoints.SliceController, error) {
		services, pods, written := follow(ctx, w.services, l), follow(ctx, w.pods, l), follow(ctx, w.slices, l)
		return endpoints.NewSlices(endpoints.SliceConfig{
			Services: services, Pods: pods, Nodes: follow(ctx, w.nodes, l), EndpointSlices: written,
			ServicesByNamespace: localcache.Scan(services, controllers.ByNamespace[*corev1.Service]),
			PodsByNamespace:     localcache.Scan(pods, controllers.ByNamespace[*corev1.Pod]),
			SlicesByService:     localcache.Scan(written, endpoints.ByService),
			Writer:              w.slices, Events: w.api, MaxEndpoints: 3,
		})
	}).run
	st.wanted = func() {
		for _, s := range w.services.list() {
			if got, want := w.sliced(s), w.wanted(s); !slices.Equal(got, want) {
				t.Errorf("slices of %s:\n%s\nwant\n%s", s.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	return st
}

// endpointsAlone is points with only the controller of Endpoints.
func endpointsAlone(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w, st := pointed(t, ctx, r)
	st.run = single(t, w.api, func(ctx context.Context, l lag) (*endpoints.Controller, error) {
		services, pods := follow(ctx, w.services, l), follow(ctx, w.pods, l)
		return endpoints.New(endpoints.Config{
			Services: services, Pods: pods, Endpoints: follow(ctx, w.endpoints, l),
			ServicesByNamespace: localcache.Scan(services, controllers.ByNamespace[*corev1.Service]),
			PodsByNamespace:     localcache.Scan(pods, controllers.ByNamespace[*corev1.Pod]),
			ServiceReader:       w.services, Writer: w.endpoints, Events: w.api,
		})
	}).run
	st.wanted = func() {
		if n := len(w.endpoints.list()); n != 2 {
			t.Errorf("%d Endpoints of two services", n)
		}
		for _, s := range w.services.list() {
			if got, want := w.listed(s.Name), listable(s, w.wanted(s)); !slices.Equal(got, want) {
				t.Errorf("endpoints of %s:\n%s\nwant\n%s", s.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	return st
}
