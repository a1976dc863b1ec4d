package kubelets

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/gorilla/websocket"
)

// tunnelCases forward ports in the older subprotocols, without a client library.
func tunnelCases() (cases []StreamCase) {
	for name, protocols := range map[string][]string{
		"none": nil, "v4": {"v4.channel.k8s.io"}, "v4-base64": {"v4.base64.channel.k8s.io"}, "v5": {"v5.channel.k8s.io"},
		"portforward": {"portforward.k8s.io"}, "unknown-tunnel": {"SPDY/3.1+none.k8s.io"},
	} {
		for ports, query := range map[string]string{"one": "ports=%d", "two": "ports=%[1]d&ports=%[1]d", "comma": "ports=%[1]d,%[1]d", "none": "x=%d", "bad": "ports=%[1]d&ports=x", "zero": "ports=0&x=%d"} {
			if ports != "one" && name != "v4" {
				continue
			}
			cases = append(cases, StreamCase{"portforward/raw-" + name + "-" + ports, func(r *streamRun) error {
				port, err := r.listen(func(conn *net.TCPConn) {
					buffer := make([]byte, 5)
					io.ReadFull(conn, buffer)
					conn.Write(append(buffer, " back"...))
				})
				if err != nil {
					return err
				}
				r.hide(base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint16(nil, uint16(port))), "port")
				conn, ok := r.dial(r.config, podPath(r.shell(), "portforward", nil)+"?"+fmt.Sprintf(query, port), protocols...)
				if !ok {
					return nil
				}
				defer conn.Close()
				m := collect(conn, soon/2)
				kind := websocket.BinaryMessage
				for _, message := range []string{"\x00hello", "\x02hello"}[:map[string]int{"two": 2, "comma": 2}[ports]+map[string]int{"one": 1}[ports]] {
					if conn.Subprotocol() == "v4.base64.channel.k8s.io" {
						kind, message = websocket.TextMessage, "0aGVsbG8="
					}
					if err := conn.WriteMessage(kind, []byte(message)); err != nil {
						r.say("write failed")
					}
				}
				<-m.done
				m.mu.Lock()
				for _, data := range m.data {
					// The first message of a channel has its port.
					if number := binary.LittleEndian.AppendUint16(nil, uint16(port)); bytes.HasPrefix(data, number) {
						copy(data, "PP")
					}
				}
				m.mu.Unlock()
				r.sayMessages(m)
				return nil
			}})
		}
	}
	return cases
}
