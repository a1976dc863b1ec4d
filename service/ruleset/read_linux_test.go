package ruleset

import "testing"

// FuzzAttributes reads messages of any form: the kernel's are well-formed, and others must not do harm.
func FuzzAttributes(f *testing.F) {
	f.Add([]byte{8, 0, 1, 0, 1, 2, 3, 4})
	f.Add([]byte{12, 0, 1, 0x80, 8, 0, 1, 0, 1, 2, 3, 4, 5, 0, 2, 0, 9})
	f.Add([]byte{3, 0, 1, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		total := 0
		attributes(message, func(_ uint16, value []byte) { total += 4 + len(value) })
		if total > len(message) {
			t.Errorf("%d bytes of attributes in %d", total, len(message))
		}
		readElement(message)
		readHook(message, nil)
		readVerdict(message)
		readEndpoint(message)
		for _, s := range []Set{{Family: IPv4, Fields: []Field{DestAddr, ProtocolNumber, DestPort}}, {Family: IPv6, Fields: []Field{SourceAddr, DestAddr}}, {Fields: []Field{GroupID, Number}}, {Fields: []Field{DestAddr, ProtocolNumber, DestPort, Number}}} {
			_ = s.Format(Key(message))
		}
	})
}
