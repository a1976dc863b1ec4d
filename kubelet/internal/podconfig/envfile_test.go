package podconfig

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestEnvFile(t *testing.T) {
	for what, test := range map[string]struct{ text, value, err string }{
		"a value":             {"A='1'\nKEY='value'\n", "value", ""},
		"leading space":       {"  \t KEY='value'", "value", ""},
		"comments":            {"# KEY='no'\n\n \t\nKEY='value' # it is", "value", ""},
		"nothing expands":     {"KEY='$A ${B} \\n \" #'", "$A ${B} \\n \" #", ""},
		"spaces stay":         {"KEY='  a = b  '", "  a = b  ", ""},
		"lines":               {"A='1\n2\n'\nKEY='a\n\nb'", "a\n\nb", ""},
		"the first counts":    {"KEY='1'\nKEY='2'", "1", ""},
		"missing":             {"A='1'", "", ""},
		"empty":               {"KEY=''", "", ""},
		"space after =":       {"KEY= 'value'", "", ""},
		"of another key":      {"A= 'value'\nKEY='value'", "value", ""},
		"after the key":       {"KEY='value'\n???", "value", ""},
		"space before =":      {"KEY ='value'", "", "line 1: whitespace before '=' is not allowed"},
		"no =":                {"A='1'\nB='\n\n'\nKEY", "", "line 5: missing '='"},
		"no name":             {"  ='1'", "", "line 1: empty variable name"},
		"no quotes":           {"KEY=value", "", "line 1: value must be enclosed in single quotes"},
		"double quotes":       {"KEY=\"value\"", "", "line 1: value must be enclosed in single quotes"},
		"text after a quote":  {"A='1'\nKEY='a\nb'c", "", "line 3: unexpected content after closing quote"},
		"an unclosed quote":   {"A='1'\nKEY='a\nb", "", "line 2: unclosed single quote"},
		"a line without end":  {"KEY='" + strings.Repeat("x", 1<<17) + "'", "", "token too long"},
		"a value without end": {"KEY='a\n" + strings.Repeat("x", 1<<17) + "'", "", "token too long"},
	} {
		value, err := parseEnvFile(strings.NewReader(test.text)).value("KEY")
		if value != test.value || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: value(\"KEY\") = %.50q, %v, want %.50q and the error %q (empty: none)", what, value, err, test.value, test.err)
		}
	}
}

func FuzzEnvFile(f *testing.F) {
	f.Add("KEY", "value", "# text")
	f.Add("KEY", "a\nb", "")
	f.Add("A B", "x", "=")
	f.Fuzz(func(t *testing.T, key, value, tail string) {
		_, _ = parseEnvFile(strings.NewReader(tail)).value(key) // it must return
		if key == "" || strings.ContainsAny(key, "=\n\r#'") || strings.TrimSpace(key) != key || strings.ContainsAny(value, "'\r") || len(key)+len(value) > 1000 {
			return
		}
		got, err := parseEnvFile(strings.NewReader(key + "='" + value + "'\n" + tail)).value(key)
		if err != nil || got != value {
			t.Errorf("value(%q) = %q, %v, want %q (the file ends with %q)", key, got, err, value, tail)
		}
	})
}

// TestVariablesOfFiles checks the environment of a container, also with files that it must not read.
func TestVariablesOfFiles(t *testing.T) {
	b := newBuilder(t)
	pod, c := newPod(t, b, "")
	volume, outside := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{volume + "/env": "KEY='value'\nBAD", outside + "/env": "KEY='secret'"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"inside": "env", "absolute": outside + "/env", "up": "../" + filepath.Base(outside) + "/env"} {
		if err := os.Symlink(to, filepath.Join(volume, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(volume+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(volume+"/huge", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(volume+"/huge", 1<<30); err != nil {
		t.Fatal(err)
	}
	const refused = "couldn't parse env file"
	optional := true
	for what, test := range map[string]struct {
		from        corev1.FileKeySelector
		value, said string
	}{
		"a value":                {corev1.FileKeySelector{VolumeName: "v", Path: "env", Key: "KEY"}, "value", ""},
		"a link in the volume":   {corev1.FileKeySelector{VolumeName: "v", Path: "inside", Key: "KEY"}, "value", ""},
		"a missing key":          {corev1.FileKeySelector{VolumeName: "v", Path: "env", Key: "OTHER"}, "", refused}, // the file is bad further on
		"a missing volume":       {corev1.FileKeySelector{VolumeName: "w", Path: "env", Key: "KEY"}, "", `cannot find the volume "w" referenced by FileKeyRef`},
		"a missing file":         {corev1.FileKeySelector{VolumeName: "v", Path: "none", Key: "KEY", Optional: &optional}, "", refused},
		"a link out of it":       {corev1.FileKeySelector{VolumeName: "v", Path: "absolute", Key: "KEY"}, "", refused},
		"a link above it":        {corev1.FileKeySelector{VolumeName: "v", Path: "up", Key: "KEY"}, "", refused},
		"a path above it":        {corev1.FileKeySelector{VolumeName: "v", Path: "../" + filepath.Base(outside) + "/env", Key: "KEY"}, "", refused},
		"a FIFO":                 {corev1.FileKeySelector{VolumeName: "v", Path: "fifo", Key: "KEY"}, "", refused},
		"a directory":            {corev1.FileKeySelector{VolumeName: "v", Path: ".", Key: "KEY"}, "", refused},
		"a huge file":            {corev1.FileKeySelector{VolumeName: "v", Path: "huge", Key: "KEY"}, "", refused},
		"a missing key of good":  {corev1.FileKeySelector{VolumeName: "o", Path: "env", Key: "OTHER"}, "", `environment variable key "OTHER" not found in file "` + outside + `/env"`},
		"a missing optional key": {corev1.FileKeySelector{VolumeName: "o", Path: "env", Key: "OTHER", Optional: &optional}, "", ""},
	} {
		c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &test.from}}}
		config, err := container(t, b, pod, map[string]string{"v": volume, "o": outside})
		if test.said != "" || err != nil {
			if err == nil || err.Error() != test.said {
				t.Errorf("%s: Container: error %v, want %q", what, err, test.said)
			}
			continue
		}
		value := ""
		for _, e := range config.Envs {
			if e.Key == "X" {
				value = string(e.Value)
			}
		}
		if value != test.value {
			t.Errorf("%s: X is %q, want %q", what, value, test.value)
		}
	}
}
