// Package export_wasi_http_incoming_handler is a component in Go, with wit-bindgen's bindings and Go's own
// compiler.
package export_wasi_http_incoming_handler

import (
	. "go.bytecodealliance.org/pkg/wit/types"
	. "wit_component/wasi_http_types"
)

// Handle answers a request.
func Handle(request *IncomingRequest, out *ResponseOutparam) {
	response := MakeOutgoingResponse(MakeFields())
	body := response.Body().Ok()
	ResponseOutparamSet(out, Ok[*OutgoingResponse, ErrorCode](response))
	stream := body.Write().Ok()
	if path := request.PathWithQuery(); path.IsSome() && path.Some() == "/echo" {
		incoming := request.Consume().Ok()
		read := incoming.Stream().Ok()
		for {
			piece := read.BlockingRead(4096)
			if piece.IsErr() || stream.BlockingWriteAndFlush(piece.Ok()).IsErr() {
				break
			}
		}
		read.Drop()
	} else {
		stream.BlockingWriteAndFlush([]byte("hello from Go\n"))
	}
	stream.Drop()
	OutgoingBodyFinish(body, None[*Fields]())
}
