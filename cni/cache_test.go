package cni

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRecord: whatever a crash left in a record's file, reading it succeeds, and the attachment is that
// of the file's name.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"network":"net","containerID":"a","ifName":"eth0","args":[{"Key":"K","Value":"v"}],"result":{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.1/8"}]}}`))
	f.Add([]byte(`{"network":"other","containerID":"../x","result":{"cniVersion":"9.9.9"}}`))
	f.Add([]byte{})
	l := &List{Name: "net", Version: "1.1.0"}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, a := records{dir: t.TempDir()}, Attachment{"web", "eth0"}
		path := c.path("net", a)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, ok, err := c.read("net", a)
		if err != nil || !ok || r.Network != "net" || r.ContainerID != "web" || r.IfName != "eth0" {
			t.Fatalf("read of %q = %+v, %v, %v, want a record of net, web and eth0", data, r, ok, err)
		}
		if last := r.result(l); last != nil {
			if _, err := last.Encode("0.3.1"); err != nil {
				t.Errorf("%q has a result that cannot be passed on: %v", data, err)
			}
		}
		if err := c.write(r); err != nil {
			t.Errorf("%q cannot be written again: %v", data, err)
		}
	})
}

// FuzzPluginError: whatever a failed plugin prints, it is an error with a code or a message, or none.
func FuzzPluginError(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.0.0","code":7,"msg":"bad","details":"very"}`))
	f.Add([]byte(`{"code":"7"}`))
	f.Add([]byte(`oops`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := parseError(data)
		if e == nil {
			return
		}
		if e.Code == 0 && e.Msg == "" || e.Error() == "" {
			t.Errorf("parseError(%q) = %+v, want a code or a message, and a text", data, e)
		}
		if out, err := json.Marshal(e); err != nil || parseError(out) == nil {
			t.Errorf("parseError(%q) marshals to %s, %v, want what parseError takes", data, out, err)
		}
	})
}

func TestRecordOfAnotherVersion(t *testing.T) {
	r := record{Result: json.RawMessage(`{"cniVersion":"0.4.0","interfaces":[{"name":"eth0"}],"ips":[{"version":"4","interface":0,"address":"10.0.0.2/24"}]}`)}
	for version, want := range map[string]string{
		"1.1.0": `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"interface":0,"address":"10.0.0.2/24"}]}`,
		"0.3.1": `{"cniVersion":"0.3.1","interfaces":[{"name":"eth0"}],"ips":[{"version":"4","interface":0,"address":"10.0.0.2/24"}]}`,
	} {
		result := r.result(&List{Version: version})
		if result == nil {
			t.Fatal("no result")
		}
		if got, err := result.Encode(version); err != nil || string(got) != want {
			t.Errorf("Encode(%q) = %s, %v, want %s", version, got, err, want)
		}
	}
}
