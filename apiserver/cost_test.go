package apiserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/storage/memstore"
)

// cheap bounds the memory that any request may take, however small: copy operations may
// add three megabytes. It is measured by samples between collections of garbage.
const cheap = 48 << 20

// bodyLimit is how long a body may be.
const bodyLimit = 3 << 20

// fillLimit is how long most bodies of the test are: shorter under the race detector, whose
// bar is wide anyway.
const fillLimit = bodyLimit / (1 + slowdown/3)

// TestWarningsOfManyFields: a body whose fields are all unknown, and another whose are all
// twice, get 4 KiB of Warning headers.
func TestWarningsOfManyFields(t *testing.T) {
	a := start(t)
	for _, body := range []string{
		configMap("web", `,`+strings.TrimSuffix(fill2(`"nobody knows %d":1,`, 100_000), ",")),
		configMap("web", `,"data":{`+strings.Repeat(`"a":"",`, 30_000)+fill2(`"b%d":"","b%[1]d":"",`, 1000)+`"a":""}`),
	} {
		got := a.do("POST", configPath+"?dryRun=All&fieldValidation=Warn", body)
		total := 0
		for _, value := range got.header.Values("Warning") {
			total += len(value)
		}
		if got.code != http.StatusCreated || total > 4<<10 || total < 3<<10 {
			t.Errorf("%d with %d bytes of warnings", got.code, total)
		}
	}
}

// fill repeats unit, with %d for a number, between head and tail, up to the limit.
func fill(head, unit, tail string) string {
	var out strings.Builder
	out.WriteString(head)
	for i := 0; out.Len()+len(unit)+8+len(tail) < fillLimit-200; i++ {
		if strings.Contains(unit, "%") {
			fmt.Fprintf(&out, unit, i)
		} else {
			out.WriteString(unit)
		}
	}
	return strings.TrimSuffix(out.String(), ",") + tail
}

// chains are n members, each nested so deep.
func chains(n, levels int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"k%d":%s1%s`, i, strings.Repeat(`{"a":`, levels), strings.Repeat("}", levels)))
	}
	return "{" + strings.Join(out, ",") + "}"
}

// hostile is a request that is made to be dear.
type hostile struct {
	name, method, path, media, body string
}

func hostiles() (all []hostile) {
	add := func(name, method, path, media, body string) {
		all = append(all, hostile{name, method, path, media, body})
	}
	const (
		merge, strategic, rfc6902, applied = "application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
		json, yaml, proto                  = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
	)
	config, web, deploy := configPath+"/web?dryRun=All", podPath+"/web?dryRun=All", deployPath+"/web?dryRun=All"
	warn := "&fieldValidation=Warn"
	const head = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new"},`
	const podHead = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"new"},`
	documents := map[string]string{
		"chains":       head + `"data":` + chains(36, 9900) + "}",
		"short chains": head + `"data":` + chains(2400, 200) + "}",
		"arrays":       head + `"data":` + strings.Repeat("[", 1_500_000) + strings.Repeat("]", 1_500_000) + "}",
		"unknown":      fill(head, `"x%d":1,`, "}"),
		"same":         fill(head, `"data":{},`, "}"),
		"keys":         fill(head+`"data":{`, `"%d":"",`, "}}"),
		"same key":     fill(head+`"data":{`, `"a":"",`, "}}"),
		"long key":     fill(head+`"data":{"`+strings.Repeat("x", 1<<20)+`":{`, `"a":0,`, "}}}"),
		"labels":       fill(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","labels":{`, `"%d":"",`, "}}}"),
		"owners":       fill(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","ownerReferences":[`, `{},`, "]}}"),
		"finalizers":   fill(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","finalizers":[`, `"",`, "]}}"),
		"some owners":  `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","ownerReferences":[` + strings.Repeat("{},", 40_000) + "{}]}}",
		"entries":      fill(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","managedFields":[`, `{"manager":"%d","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}},`, "]}}"),
		"fields":       fill(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{`, `"f:%d":{},`, "}}}]}}"),
		"nested fields": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` +
			strings.Repeat(`{"f:a":`, 200) + "{}" + strings.Repeat("}", 200) + `}]}}`,
		"other fields": fill(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v2","fieldsType":"FieldsV1","fieldsV1":{"f:data":{`, `"f:%d":{},`, "}}}]}}"),
	}
	pods := map[string]string{
		"containers":      fill(podHead+`"spec":{"containers":[`, `{},`, "]}}"),
		"some containers": podHead + `"spec":{"containers":[` + strings.Repeat("{},", 15_000) + "{}]}}",
		"volumes":         fill(podHead+`"spec":{"volumes":[`, `{"emptyDir":{}},`, "]}}"),
		"env":             fill(podHead+`"spec":{"containers":[{"name":"c","image":"i","env":[`, `{"name":"e%d"},`, "]}]}}"),
		"args":            fill(podHead+`"spec":{"containers":[{"name":"c","image":"i","args":[`, `"",`, "]}]}}"),
		"resources":       fill(podHead+`"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{`, `"r/%d":1,`, "}}}]}}"),
	}
	for name, body := range documents {
		add("JSON "+name, "POST", configPath+"?dryRun=All"+warn, json, body)
		add("merge "+name, "PATCH", config+warn, merge, strings.Replace(body, `"new"`, `"web"`, 1))
		add("strategic "+name, "PATCH", config+warn, strategic, strings.Replace(body, `"new"`, `"web"`, 1))
		add("apply "+name, "PATCH", config+warn+"&fieldManager=m&force=true", applied, strings.Replace(body, `"new"`, `"web"`, 1))
	}
	for name, body := range pods {
		add("JSON "+name, "POST", podPath+"?dryRun=All"+warn, json, body)
		add("merge "+name, "PATCH", web+warn, merge, strings.Replace(body, `"new"`, `"web"`, 1))
		add("strategic "+name, "PATCH", web+warn, strategic, strings.Replace(body, `"new"`, `"web"`, 1))
		add("status "+name, "PATCH", podPath+"/web/status?dryRun=All", strategic, strings.Replace(body, `"new"`, `"web"`, 1))
		add("apply "+name, "PATCH", web+warn+"&fieldManager=m&force=true", applied, strings.Replace(body, `"new"`, `"web"`, 1))
	}
	for name, operations := range map[string]string{
		"long path":        `[{"op":"add","path":"` + strings.Repeat("/a", 1_500_000) + `","value":1}]`,
		"long paths":       "[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/data`+strings.Repeat("/a", 120)+`","value":1},`, 9999), ",") + "]",
		"deep and long":    `[{"op":"add","path":"/data/x","value":` + strings.Repeat(`{"a":`, 200) + "{}" + strings.Repeat("}", 200) + "}" + strings.Repeat(`,{"op":"add","path":"/data/x`+strings.Repeat("/a", 100)+`/b","value":1}`, 9000) + "]",
		"front of a list":  `[{"op":"add","path":"/data/x","value":[` + strings.Repeat("0,", 1_000_000) + `0]}` + strings.Repeat(`,{"op":"add","path":"/data/x/0","value":1},{"op":"remove","path":"/data/x/500000"}`, 4900) + "]",
		"copies":           `[{"op":"add","path":"/data/x","value":[0]}` + strings.Repeat(`,{"op":"copy","from":"/data/x","path":"/data/x/0"}`, 60) + "]",
		"copies of a text": `[{"op":"add","path":"/data/x","value":"` + strings.Repeat("x", 1<<20) + `"}` + strings.Repeat(`,{"op":"copy","from":"/data/x","path":"/data/y"}`, 9000) + "]",
		"tests":            `[{"op":"add","path":"/data/x","value":[` + strings.Repeat("{},", 400_000) + `0]},{"op":"test","path":"/data/x","value":[` + strings.Repeat("{},", 400_000) + `0]}]`,
		"moves":            "[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/data/y","value":{}},{"op":"move","from":"/data/x","path":"/data/y/x"},{"op":"move","from":"/data/y","path":"/data/x"},`, 3300), ",") + "]",
		"wide":             fill(`[{"op":"add","path":"/data/x","value":{`, `"%d":0,`, `}},{"op":"add","path":"/data/x/y","value":1}]`),
		"chains":           `[{"op":"add","path":"/data/x","value":` + chains(36, 9900) + "}]",
		"operations":       fill("[", `{"op":"x"},`, "]"),
		"nothing":          fill("[", `{},`, "]"),
		"names":            fill("[{", `"%d":0,`, "}]"),
	} {
		add("JSON patch "+name, "PATCH", config+warn, rfc6902, operations)
	}
	add("strategic same containers", "PATCH", web, strategic, fill(`{"spec":{"containers":[`, `{"name":"c%d"},`, "]}}"))
	add("strategic some containers", "PATCH", web, strategic, `{"spec":{"containers":[`+strings.Repeat(`{"name":"x"},`, 1000)+`{"name":"y"}]}}`)
	add("strategic order", "PATCH", web, strategic, fill(`{"spec":{"$setElementOrder/containers":[`, `{"name":"c%d"},`, `],"containers":[{"name":"c"}]}}`))
	add("strategic deletes", "PATCH", web, strategic, fill(`{"metadata":{"$deleteFromPrimitiveList/finalizers":[`, `"c%d",`, `],"finalizers":["c/d"]}}`))
	add("scale", "PUT", deployPath+"/web/scale?dryRun=All"+warn, json, fill(`{"metadata":{"name":"web"},"spec":{"replicas":1,`, `"x%d":0,`, "}}"))
	add("scale merge", "PATCH", deployPath+"/web/scale?dryRun=All"+warn, merge, `{"spec":`+chains(36, 9900)+"}")
	add("scale apply", "PATCH", deployPath+"/web/scale?dryRun=All&fieldManager=m"+warn, applied, fill(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":1,`, `"x%d":0,`, "}}"))
	add("deployment merge", "PATCH", deploy+warn, merge, fill(`{"spec":{"template":{"spec":{"containers":[`, `{},`, "]}}}}"))
	for name, body := range map[string]string{
		"flow":          fill("a: [", "a,", "]"),
		"empty flow":    fill("a: [", "[],", "]"),
		"block":         fill("a:\n", "- a\n", ""),
		"nested blocks": "a: " + strings.Repeat("- ", 1_000_000) + "a",
		"nested flow":   "a: " + strings.Repeat("[", 1_000_000),
		"nested and ok": "a: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"deep chains":   "a: [" + strings.Repeat(strings.Repeat("{a: ", 200)+strings.Repeat("}", 200)+",", 400) + "1]",
		"laughs": "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + func() (out string) {
			for i := 1; i < 10; i++ {
				out += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
			}
			return
		}(),
		"long alias":   "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 90_000) + "1]",
		"same keys":    fill("", "a: 1\n", ""),
		"keys":         fill("", "k%d: 1\n", ""),
		"some keys":    fill2("k%d: 1\n", 45_000),
		"some same":    strings.Repeat("a: 1\n", 45_000),
		"long lines":   fill("a: \"", "x ", "\""),
		"block scalar": fill("data:\n  a: |\n", "    "+strings.Repeat("x", 200)+"\n", ""),
		"tags":         fill("a: [", "!!int 1,", "]"),
		"comments":     fill("a: 1\n", "# \n", ""),
		"anchors":      fill("", "&a%d ", "x"),
		"documents":    fill("", "---\n", ""),
		"quotes":       fill("a: '", "''", "'"),
	} {
		add("YAML "+name, "POST", configPath+"?dryRun=All"+warn, yaml, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: new}\n"+body)
		add("apply YAML "+name, "PATCH", config+warn+"&fieldManager=m&force=true", applied, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: web}\n"+body)
	}
	add("delete", "DELETE", config, json, fill(`{"kind":"DeleteOptions","apiVersion":"v1","dryRun":[`, `"",`, "]}"))
	add("delete deep", "DELETE", config, json, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":`+chains(36, 9900)+"}")
	for name, body := range map[string]string{
		"maps":       "\xbf\x64data\x9f" + strings.Repeat("\xa0", 100_000) + "\xff\xff",
		"many maps":  "\xbf\x64data\x9f" + strings.Repeat("\xa0", 3_000_000) + "\xff\xff",
		"keys":       "\xbf\x64data\xbf" + fill2("\x66%06d\x60", 40_000) + "\xff\xff",
		"many keys":  "\xbf\x64data\xbf" + fill2("\x66%06d\x60", 370_000) + "\xff\xff",
		"same key":   "\xbf\x64data\xbf" + strings.Repeat("\x61a\x60", 40_000) + "\xff\xff",
		"nested":     strings.Repeat("\x81", 3_000_000) + "\x00",
		"deep":       "\xa1\x64data" + strings.Repeat("\x81", 250) + "\x00",
		"pieces":     "\xa1\x64data\x7f" + strings.Repeat("\x60", 3_000_000) + "\xff",
		"some":       "\xa1\x64data\x7f" + strings.Repeat("\x78\x20"+strings.Repeat("x", 32), 80_000) + "\xff",
		"long":       "\xa1\x64data\x7a\x00\x2d\x00\x00" + strings.Repeat("\x01", 45<<16),
		"bytes":      "\xa1\x64data\xd6\x5a\x00\x2d\x00\x00" + strings.Repeat("\xff", 45<<16),
		"with times": "\xa1\x64data\x9f" + strings.Repeat("\xc1\x1a\x51\x4b\x67\xb0", 40_000) + "\xff",
	} {
		add("CBOR "+name, "POST", configPath+"?dryRun=All"+warn, "application/cbor", body)
		add("apply CBOR "+name, "PATCH", config+warn+"&fieldManager=m&force=true", "application/apply-patch+cbor", body)
	}
	message := func(unit string) string {
		raw := strings.Repeat(unit, (bodyLimit-100)/len(unit))
		return envelope("v1", "Pod", lengthened(2, raw))
	}
	add("protobuf containers", "POST", podPath+"?dryRun=All", proto, message("\x12\x00"))
	add("protobuf volumes", "POST", podPath+"?dryRun=All", proto, message("\x0a\x04\x12\x02\x12\x00"))
	add("protobuf selector", "POST", podPath+"?dryRun=All", proto, message("\x3a\x00"))
	add("protobuf fields", "POST", configPath+"?dryRun=All", proto, envelope("v1", "ConfigMap", lengthened(1, lengthened(1, "new")+
		lengthened(17, lengthened(1, "m")+lengthened(2, "Update")+lengthened(3, "v1")+lengthened(6, "FieldsV1")+lengthened(7, lengthened(1, strings.Repeat(`{"f:a":`, 300_000)+strings.Repeat("}", 300_000)))))))
	add("protobuf fields of others", "POST", configPath+"?dryRun=All", proto, envelope("v1", "ConfigMap", lengthened(1, lengthened(1, "new")+
		lengthened(17, lengthened(1, "m")+lengthened(2, "Update")+lengthened(3, "v2")+lengthened(6, "FieldsV1")+lengthened(7, lengthened(1, strings.Repeat(`{"f:a":`, 9_000)+"{}"+strings.Repeat("}", 9_000)))))))
	return all
}

func fill2(unit string, n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, unit, i)
	}
	return out.String()
}

// lengthened is a field of a protobuf message.
func lengthened(number int, content string) string {
	return string(appendVarint(appendVarint(nil, uint64(number)<<3|2), uint64(len(content)))) + content
}

func appendVarint(to []byte, n uint64) []byte {
	for ; n >= 0x80; n >>= 7 {
		to = append(to, byte(n)|0x80)
	}
	return append(to, byte(n))
}

// envelope is a protobuf object.
func envelope(version, kind, raw string) string {
	return "k8s\x00" + lengthened(1, lengthened(1, version)+lengthened(2, kind)) + lengthened(2, raw)
}

// TestCostOfBodies: no body up to the limit takes more than a second of processor time, or
// twenty times its size in memory.
func TestCostOfBodies(t *testing.T) {
	s := fuzzServer(t, memstore.New())
	for path, object := range map[string]string{configPath: configMap("web", `,"data":{"a":"b"}`), podPath: pod("web", ""), deployPath: deployment("web", 1)} {
		if w := serveOne(s, "POST", path, "application/json", "", object); w.Code != http.StatusCreated {
			t.Fatalf("POST %s = %d %s, want 201", path, w.Code, w.Body)
		}
	}
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			if len(h.body) > bodyLimit {
				t.Fatalf("a body of %d bytes", len(h.body))
			}
			var code int
			before := used.Processor()
			bounded(t, time.Second, func() { code = sendHostile(s, h) })
			if code == 0 || code >= 500 {
				t.Errorf("answered %d", code)
			}
			if slowdown > 1 || used.Processor()-before < 10*time.Millisecond {
				return // memory is another under the race detector, and takes time to make
			}
			peak := used.Peak(func() { sendHostile(s, h) })
			t.Logf("%d: %d bytes take %d MB", code, len(h.body), peak>>20)
			if most := 20*len(h.body) + cheap; peak > most {
				t.Errorf("%d bytes take %d MB of memory, at most %d MB are due", len(h.body), peak>>20, most>>20)
			}
		})
	}
}

func sendHostile(s *apiserver.Server, h hostile) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(h.method, h.path, strings.NewReader(h.body))
	r.Header.Set("Content-Type", h.media)
	r.Header.Set("Authorization", "Bearer x")
	s.ServeHTTP(w, r)
	warned := 0
	for _, value := range w.Header().Values("Warning") {
		warned += len(value)
	}
	if warned > 4<<10 {
		return 0
	}
	return w.Code
}
