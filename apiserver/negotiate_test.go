package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/apiserver/apiservertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

const protoMedia = "application/vnd.kubernetes.protobuf"

func TestNegotiation(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("a", ""))
	for _, c := range []struct {
		accept string
		code   int
		media  string
	}{
		{"", 200, "application/json"},
		{"*/*", 200, "application/json"},
		{"application/*", 200, "application/json"},
		{"application/yaml", 200, "application/yaml"},
		{protoMedia, 200, protoMedia},
		{protoMedia + ", */*", 200, protoMedia},
		{"application/cbor, application/json", 200, "application/cbor"},
		{"application/json;q=0.1," + protoMedia + ";q=0.9", 200, protoMedia},
		{"*/*, application/yaml", 200, "application/yaml"},
		{"application/json;q=0, application/yaml", 200, "application/yaml"},
		{"application/json;as=Other;v=v1;g=meta.k8s.io,application/yaml", 200, "application/yaml"},
		{"application/json;as=Table;v=v9;g=meta.k8s.io", 406, "application/json"},
		{protoMedia + ";as=Table;v=v1;g=meta.k8s.io", 406, "application/json"},
		{"text/html", 406, "application/json"},
		{"application/json;as=Table;v=v1beta1;g=meta.k8s.io", 200, "application/json"},
		{"application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", 200, "application/json"},
		{"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", 406, "application/json"},
		{"application/cbor;as=Table;v=v1;g=meta.k8s.io", 406, "application/json"},
		{"nonsense", 406, "application/json"},
	} {
		got := a.do("GET", configPath+"/a", "", "Accept: "+c.accept)
		if media := got.header.Get("Content-Type"); got.code != c.code || media != c.media {
			t.Errorf("%q: %d %s, want %d %s", c.accept, got.code, media, c.code, c.media)
		}
	}
	a.want(a.do("GET", configPath+"/none", "", "Accept: "+protoMedia), 404, "not found")
}

// TestOlderMetadata: tables and metadata in v1beta1 say so, also of what is in them.
func TestOlderMetadata(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("a", ""))
	const beta = ";v=v1beta1;g=meta.k8s.io"
	for as, want := range map[string]int{"Table": 2, "PartialObjectMetadataList": 2} {
		got := a.do("GET", configPath, "", "Accept: application/json;as="+as+beta)
		if count := strings.Count(got.body, `"meta.k8s.io/v1beta1"`); got.code != 200 || count != want || strings.Contains(got.body, `"meta.k8s.io/v1"`) {
			t.Errorf("GET as %s of v1beta1 = %d %s, want 200 with that version %d times", as, got.code, got.body, want)
		}
	}
	a.want(a.do("GET", configPath, "", "Accept: application/json;as=PartialObjectMetadata"+beta), 406, "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)")
	a.want(a.do("GET", configPath+"/a", "", "Accept: application/json;as=PartialObjectMetadataList"+beta), 406, "is not a list (*core.ConfigMap)")
}

func decodeProto(t *testing.T, data string, obj runtime.Object) {
	t.Helper()
	s := protobuf.NewSerializer(runtime.NewScheme(), runtime.NewScheme())
	if _, _, err := s.Decode([]byte(data), nil, obj); err != nil {
		t.Fatal(err)
	}
}

func TestProtobuf(t *testing.T) {
	a := start(t)
	var body bytes.Buffer
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: map[string]string{"k": "v"}}
	if err := protobuf.NewSerializer(nil, nil).Encode(cm, &body); err != nil {
		t.Fatal(err)
	}
	accept := "Accept: " + protoMedia
	made := a.want(a.do("POST", configPath, body.String(), "Content-Type: "+protoMedia, accept), 201, "")
	var got corev1.ConfigMap
	decodeProto(t, made.body, &got)
	if got.Name != "p" || got.Data["k"] != "v" || got.UID == "" {
		t.Errorf("made %+v", got)
	}
	var list corev1.ConfigMapList
	decodeProto(t, a.do("GET", configPath, "", accept).body, &list)
	if len(list.Items) != 1 || list.Items[0].UID != got.UID {
		t.Errorf("list %+v", list)
	}
	var meta metav1.PartialObjectMetadataList
	decodeProto(t, a.do("GET", configPath, "", "Accept: "+protoMedia+";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").body, &meta)
	if len(meta.Items) != 1 || meta.Items[0].UID != got.UID {
		t.Errorf("metadata %+v", meta)
	}
	options := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, DryRun: []string{"All"}}
	body.Reset()
	if err := protobuf.NewSerializer(nil, nil).Encode(options, &body); err != nil {
		t.Fatal(err)
	}
	a.want(a.do("DELETE", configPath+"/p", body.String(), "Content-Type: "+protoMedia), 200, "")
	a.want(a.do("GET", configPath+"/p", ""), 200, "")
}

func TestProtobufWatch(t *testing.T) { synctest.Test(t, testProtobufWatch) }

func testProtobufWatch(t *testing.T) {
	_, a := inMemory(t)
	a.create(configPath, configMap("a", ""))
	got := a.do("GET", configPath+"?watch=true&timeoutSeconds=1", "", "Accept: "+protoMedia+";stream=watch")
	if media := got.header.Get("Content-Type"); media != protoMedia+";stream=watch" {
		t.Errorf("content type %q", media)
	}
	length := binary.BigEndian.Uint32([]byte(got.body))
	var event metav1.WatchEvent
	if err := event.Unmarshal([]byte(got.body[4 : 4+length])); err != nil {
		t.Fatal(err)
	}
	var cm corev1.ConfigMap
	decodeProto(t, string(event.Object.Raw), &cm)
	if event.Type != "ADDED" || cm.Name != "a" {
		t.Errorf("event %s %+v", event.Type, cm)
	}
}

func TestYAML(t *testing.T) {
	a := start(t)
	got := a.want(a.do("POST", configPath, "metadata:\n  name: one\ndata: {k: v}\n", "Content-Type: application/yaml", "Accept: application/yaml"), 201, "")
	var cm corev1.ConfigMap
	if err := yaml.Unmarshal([]byte(got.body), &cm); err != nil || cm.Data["k"] != "v" || cm.Kind != "ConfigMap" {
		t.Errorf("the create gives %s, %v, want the YAML of a ConfigMap with k=v", got.body, err)
	}
}

func TestTables(t *testing.T) {
	a := start(t)
	a.create(podPath, pod("p", ""))
	accept := "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	table := into[metav1.Table](t, a.want(a.do("GET", podPath, "", accept), 200, ""))
	var heads []string
	for _, c := range table.ColumnDefinitions {
		heads = append(heads, c.Name)
	}
	if strings.Join(heads, " ") != "Name Status Node" || table.ColumnDefinitions[2].Priority != 1 || table.ColumnDefinitions[0].Format != "name" {
		t.Errorf("columns %+v", table.ColumnDefinitions)
	}
	if table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" || len(table.Rows) != 1 || table.Rows[0].Cells[0] != "p" || table.ResourceVersion == "" {
		t.Errorf("table %+v", table)
	}
	for include, want := range map[string]string{"": "PartialObjectMetadata", "Metadata": "PartialObjectMetadata", "Object": `"kind":"Pod"`, "None": `"object":null`} {
		if got := a.do("GET", podPath+"/p?includeObject="+include, "", accept); !strings.Contains(got.body, want) {
			t.Errorf("includeObject=%s: %s", include, got.body)
		}
	}
	a.want(a.do("GET", podPath+"?includeObject=Other", "", accept), 400, "includeObject")
	plain := into[metav1.Table](t, a.do("GET", configPath, "", accept))
	if len(plain.ColumnDefinitions) != 2 || plain.ColumnDefinitions[1].Name != "Age" || plain.Rows == nil {
		t.Errorf("columns without any: %+v", plain)
	}
}

func TestGzip(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("big", `,"data":{"a":"`+strings.Repeat("a", 200<<10)+`"}`))
	got := a.do("GET", configPath+"/big", "", "Accept-Encoding: gzip")
	if got.header.Get("Content-Encoding") != "gzip" || len(got.body) > 100<<10 {
		t.Fatalf("%v, %d bytes", got.header, len(got.body))
	}
	z, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil || len(data) < 200<<10 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestPretty(t *testing.T) {
	a := start(t, apiservertest.WithResources())
	a.create(configPath, configMap("a", ""))
	if got := a.do("GET", configPath+"/a?pretty=true", ""); !strings.Contains(got.body, "\n  \"metadata\"") {
		t.Error(got.body)
	}
}
