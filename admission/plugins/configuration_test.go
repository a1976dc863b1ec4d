package plugins_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/plugins"
)

const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"

// configured makes plugins that keep what they were configured with.
func configured(got map[string]string, names ...string) []plugins.Plugin {
	var list []plugins.Plugin
	for _, name := range names {
		list = append(list, plugins.Plugin{Name: name, New: func(config []byte) (any, error) {
			if got[name] = string(config); config == nil {
				got[name] = "nil"
			}
			return admission.Chain{}, nil
		}})
	}
	return list
}

func TestConfigurationReachesPlugins(t *testing.T) {
	dir := t.TempDir()
	absolute := filepath.Join(t.TempDir(), "absolute.yaml")
	for path, content := range map[string]string{
		absolute: "absolute", filepath.Join(dir, "relative.yaml"): "relative", filepath.Join(dir, "unused.yaml"): "unused",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := plugins.Parse([]byte(header+`
plugins:
- {name: Relative, path: ./relative.yaml}
- {name: Absolute, path: `+absolute+`}
- name: Inline
  configuration: {b: 1, a: [x]}
- {name: Both, path: unused.yaml, configuration: {c: 2}}
- {name: Empty}
- {name: Nothing, configuration: null, path: relative.yaml}
- {name: Idle, path: missing.yaml}
`), filepath.Join(dir, "admission.yaml"), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	list := configured(got, "Relative", "Absolute", "Inline", "Both", "Empty", "Nothing", "Idle", "Unmentioned")
	if _, err := plugins.New(plugins.Config{Table: list, Configuration: config, Disable: []string{"Idle"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Relative": "relative", "Absolute": "absolute", "Inline": `{"a":["x"],"b":1}`, "Both": `{"c":2}`,
		"Empty": "nil", "Nothing": "relative", "Idle": "", "Unmentioned": "nil",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	_, err = plugins.New(plugins.Config{Table: list, Configuration: config})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), `admission plugin "Idle"`) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		header: "",
		"apiVersion: apiserver.k8s.io/v1alpha1\nkind: AdmissionConfiguration": "",
		"": `it is "" of "", want "AdmissionConfiguration" of "apiserver.config.k8s.io/v1"`,
		"apiVersion: apiserver.config.k8s.io/v2\nkind: AdmissionConfiguration":  "v2",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration": "EncryptionConfiguration",
		header + "plugin: []":                            `unknown field "plugin"`,
		header + "plugins: [{name: A, file: x}]":         `unknown field "file"`,
		header + "plugins: [{name: A}, {name: A}]":       `plugins[1].name "A"`,
		header + "plugins: [{path: x}]":                  `plugins[0].name ""`,
		header + "plugins: [{name: A, name: B}]":         `key "name" already set`,
		header + "plugins: {":                            "yaml",
		header + "plugins: [{name: A, configuration: }]": "",
	} {
		_, err := plugins.Parse([]byte(text), "/etc/admission.yaml", os.ReadFile)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "/etc/admission.yaml") {
			t.Errorf("%q: %v does not name the file", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(header + "plugins:\n- {name: A, path: x}\n- {name: B, configuration: {a: 1}}\n")
	f.Add(header + "plugins: [{name: A, configuration: null}]")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		read := func(path string) ([]byte, error) {
			if !filepath.IsAbs(path) {
				t.Errorf("reads %q", path)
			}
			return nil, os.ErrNotExist
		}
		config, err := plugins.Parse([]byte(text), "/etc/admission.yaml", read)
		if err != nil {
			return
		}
		got := map[string]string{}
		if _, err := plugins.New(plugins.Config{Table: configured(got, "A", "B"), Configuration: config}); err == nil && len(got) != 2 {
			t.Errorf("made %v", got)
		}
	})
}
