package podsecurity_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission/podsecurity"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const header = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"

func TestParse(t *testing.T) {
	got, err := podsecurity.ParseConfig([]byte(header + `
defaults:
  enforce: baseline
  enforce-version: v1.30
  warn: restricted
exemptions:
  usernames: [root]
  namespaces: [kube-system]
  runtimeClasses: [vm]
`))
	want := podsecurity.Configuration{
		Defaults: podsecurity.Policy{
			Enforce: podsecurity.Standard{Level: podsecurity.Baseline, Version: podsecurity.V(30)},
			Warn:    podsecurity.Standard{Level: podsecurity.Restricted},
		},
		Exemptions: podsecurity.Exemptions{Usernames: []string{"root"}, Namespaces: []string{"kube-system"}, RuntimeClasses: []string{"vm"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ParseConfig = %+v, %v, want %+v", got, err, want)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		if got, err := podsecurity.ParseConfig([]byte(strings.Replace(header, "/v1", "/"+version, 1))); err != nil || !reflect.DeepEqual(got, podsecurity.Configuration{}) {
			t.Errorf("ParseConfig of an empty %s = %+v, %v, want %+v", version, got, err, podsecurity.Configuration{})
		}
	}
}

func TestWrongConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       `the configuration is "" of "", want "PodSecurityConfiguration"`,
		strings.Replace(header, "/v1", "/v2", 1): `"pod-security.admission.config.k8s.io/v2"`,
		header + "default: {}":                   `unknown field "default"`,
		header + "defaults: {enforce: none}":     `defaults.enforce: Invalid value: "none": must be one of privileged, baseline, restricted`,
		header + "defaults: {warn-version: [v1.2]}":    "cannot unmarshal array",
		header + "defaults: {warn-version: v1}":        `defaults.warn-version: Invalid value: "v1": must be "latest" or "v1.x"`,
		header + "defaults: {warning: baseline}":       `defaults.warning: Invalid value: "baseline": unknown field`,
		header + "exemptions: {namespaces: [a, A, a]}": `[exemptions.namespaces[1]: Invalid value: "A": a lowercase RFC 1123 label`,
		header + "exemptions: {namespaces: [a, a]}":    `exemptions.namespaces[1]: Duplicate value: "a"`,
		header + "exemptions: {usernames: ['']}":       `exemptions.usernames[0]: Invalid value: "": username must not be empty`,
		header + "exemptions: {runtimeClasses: [_]}":   `exemptions.runtimeClasses[0]: Invalid value: "_": a lowercase RFC 1123 subdomain`,
	} {
		err := tryConfiguration(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, s := range []podsecurity.Standard{{Level: 3}, {Level: -1}, {Version: podsecurity.V(-1)}} {
		if err := newPlugin(podsecurity.Configuration{Defaults: podsecurity.Policy{Audit: s}}); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func tryConfiguration(text string) error {
	c, err := podsecurity.ParseConfig([]byte(text))
	if err != nil {
		return err
	}
	return newPlugin(c)
}

func newPlugin(c podsecurity.Configuration) error {
	_, err := podsecurity.New(podsecurity.Config{
		Configuration: c, Namespaces: newCluster().namespaces, Pods: podsOf{},
		Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, nil },
	})
	return err
}

func FuzzParseConfig(f *testing.F) {
	f.Add(header + "defaults: {enforce: baseline, enforce-version: v1.3}\nexemptions: {usernames: [a]}\n")
	f.Add(header + "defaults: {enforce: [baseline]}\n")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		_ = tryConfiguration(text)
	})
}

// FuzzLabels: any labels are read, and those that are valid are written as they were.
func FuzzLabels(f *testing.F) {
	f.Add("baseline", "latest")
	f.Add("restricted", "v1.0")
	f.Add("restricted", "v1.99999999999999999999999")
	standards := podsecurity.NewStandards()
	f.Fuzz(func(t *testing.T, level, version string) {
		labels := map[string]string{"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": version}
		policy, problems := podsecurity.PolicyOf(labels, podsecurity.Policy{})
		standards.Evaluate(policy.Enforce, &metav1.ObjectMeta{}, &corev1.PodSpec{})
		if len(problems) == 0 && policy.Enforce.String() != level+":"+version {
			t.Errorf("PolicyOf(enforce %q, enforce-version %q) enforces %v, want %s:%s", level, version, policy.Enforce, level, version)
		}
	})
}
